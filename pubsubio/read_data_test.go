package pubsubio

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

func TestF05OddMessagesArriveAsTheyAre(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		sent := []*pubsubpb.PubsubMessage{
			{Attributes: map[string]string{"only": "attributes"}},
			{Data: []byte{}, Attributes: map[string]string{"empty": "data"}},
			{Data: []byte{0xff, 0, 0xff}},
			{Data: []byte("жé€\x00\r\n"), Attributes: map[string]string{"": "empty name", "empty value": "", "colon:\nline": "a:b\\c\nd\r", "жé€": "жé€"}},
			{Data: make([]byte, 9<<20), OrderingKey: strings.Repeat("k", 1024)},
			{Data: []byte("many"), Attributes: manyAttributes(100)},
		}
		r.store(sent...)
		r.source(SchemaSlim, MetadataFull)
		got := r.read(len(sent), 10*time.Second)
		for i, m := range got {
			w := sent[i]
			if string(m.Data) != string(w.Data) || !maps.Equal(m.Attributes, w.Attributes) || m.OrderingKey != w.OrderingKey || m.MessageID == "" || m.AckID == "" {
				t.Errorf("message %d arrived with %d bytes, attributes %v", i, len(m.Data), m.Attributes)
			}
		}
	})
}

func manyAttributes(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("key", i)] = strings.Repeat("v", 1024)
	}
	return m
}

func TestF14TimestampsAreSaneOrThePublishTime(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		now := time.Now()
		ms := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
		good := now.Add(-time.Hour).Truncate(time.Millisecond)
		for _, tc := range []struct {
			name, value string
			want        time.Time // zero: the publish time
		}{
			{"milliseconds", ms(good), good},
			{"RFC 3339", good.UTC().Format(time.RFC3339Nano), good},
			{"RFC 3339 with offset", good.In(time.FixedZone("", -3*3600)).Format(time.RFC3339Nano), good},
			{"a little ahead", ms(now.Add(time.Hour)), now.Add(time.Hour).Truncate(time.Millisecond)},
			{"a past century, spelt out", "1970-02-03T04:05:06Z", time.Date(1970, 2, 3, 4, 5, 6, 0, time.UTC)},
			{"absent", "", time.Time{}},
			{"text", "abc", time.Time{}},
			{"seconds", strconv.FormatInt(now.Unix(), 10), time.Time{}},
			{"zero", "0", time.Time{}},
			{"negative", "-5", time.Time{}},
			{"year 2200", ms(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)), time.Time{}},
			{"too large for a number", "99999999999999999999", time.Time{}},
			{"microseconds", strconv.FormatInt(now.UnixMicro(), 10), time.Time{}},
		} {
			m := &pubsubpb.PubsubMessage{Data: []byte(tc.name), Attributes: map[string]string{"want": ms(tc.want)}}
			if tc.value != "" {
				m.Attributes["ts"] = tc.value
			}
			if tc.want.IsZero() {
				m.Attributes["want"] = "publish"
			}
			r.store(m)
		}
		before := timestampFallbacks.Load()
		r.source(TimestampAttribute("ts"), MetadataFull)
		n := 0
		for end := time.Now().Add(5 * time.Second); n < 13 && time.Now().Before(end); {
			b := r.call().commit()
			for i, m := range b.got {
				n++
				want := mtime.FromTime(m.PublishTime)
				if w := m.Attributes["want"]; w != "publish" {
					v, _ := strconv.ParseInt(w, 10, 64)
					want = mtime.Time(v)
				}
				if b.times[i] != want {
					t.Errorf("%s: event time %v, want %v", m.Data, b.times[i], want)
				}
			}
			if r.watermark().After(time.Now()) {
				t.Errorf("watermark %v is in the future", r.watermark())
			}
		}
		if n != 13 {
			t.Errorf("%d of 13 arrived", n)
		}
		if d := timestampFallbacks.Load() - before; d != 8 {
			t.Errorf("fallbacks counted: %d, want 8", d)
		}
	})
}

// One message in a thousand cannot be decoded: it goes to Failed with its raw
// body, and is settled like the others.
func TestF18PoisonGoesToFailed(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		for i := range 1000 {
			body := fmt.Sprintf(`{"id":%d}`, i)
			if i == 500 {
				body = `{"id":50`
			}
			r.store(&pubsubpb.PubsubMessage{Data: []byte(body), Attributes: map[string]string{"n": strconv.Itoa(i)}})
		}
		r.source(Schema("id BIGINT NOT NULL"), MetadataFull)
		good, failed := 0, []FailedMessage(nil)
		for end := time.Now().Add(10 * time.Second); good+len(failed) < 1000 && time.Now().Before(end); {
			b := r.call().commit()
			if b.err != nil {
				t.Fatal(b.err)
			}
			good += len(b.got)
			failed = append(failed, b.failed...)
			for _, m := range b.got {
				if len(m.Fields) != 1 {
					t.Fatalf("fields %v of %s", m.Fields, m.Data)
				}
			}
		}
		if good != 999 || len(failed) != 1 {
			t.Fatalf("%d good, %d failed", good, len(failed))
		}
		f := failed[0]
		if string(f.Message.Data) != `{"id":50` || f.Message.Attributes["n"] != "500" || f.Message.MessageID == "" || !f.Permanent || f.Reason == "" {
			t.Errorf("%+v", f)
		}
		if s := r.stats(); s.Acked != 1000 || r.reader().Stats().DecodeFailed.Load() != 1 {
			t.Errorf("acked %d, decode_failed %d", s.Acked, r.reader().Stats().DecodeFailed.Load())
		}
	})
}

// Two publishes of one id are one message, whether the first is still in hand or
// acknowledged already; another id is another message.
func TestIDAttributeDropsDuplicates(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		send := func(ids ...string) {
			for _, id := range ids {
				r.store(&pubsubpb.PubsubMessage{Data: []byte(id), Attributes: map[string]string{"id": id}})
			}
		}
		send("a", "b", "a")
		r.store(&pubsubpb.PubsubMessage{Data: []byte("none")}, &pubsubpb.PubsubMessage{Data: []byte("none")})
		r.source(IDAttribute("id"))
		got := r.read(4, 5*time.Second)
		time.Sleep(time.Second)
		send("b", "c")
		got = append(got, r.read(1, 5*time.Second)...)
		if c := counts(got); c["a"] != 1 || c["b"] != 1 || c["c"] != 1 || c["none"] != 2 {
			t.Errorf("emitted %v", c)
		}
		r.call().commit()
		synctest.Wait()
		if s := r.stats(); s.Unacked != 0 || r.reader().Stats().Deduplicated.Load() != 2 {
			t.Errorf("unacked %d, deduplicated %d", s.Unacked, r.reader().Stats().Deduplicated.Load())
		}
	})
}
