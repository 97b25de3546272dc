package pubsubio

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// documented makes the source from options by their documented names.
func (r *readRig) documented(kv ...string) {
	r.Helper()
	r.documentedOnly(kv...)
	if err := r.prepare(); err != nil {
		r.Fatal(err)
	}
}

func (r *readRig) documentedOnly(kv ...string) {
	r.Helper()
	m := with("projectId", testProject, "subscription", "orders-sub", "emulatorHost", r.conn.EmulatorHost)
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	s, err := ReadFromMap(m)
	if err != nil {
		r.Fatal(err)
	}
	r.conn, r.name = s.Connection, s.Subscription
	r.build(s.Options...)
}

// An optionEffect shows on the outside what an option does: in a request, in a
// message, or in how long something takes.
type optionEffect struct {
	settings func(*pubsubpb.Subscription)
	check    func(t *testing.T, r *readRig)
}

func shows(f func(t *testing.T, r *readRig)) optionEffect { return optionEffect{check: f} }

// plainEffects need a network, and so no bubble.
var plainEffects = map[string]func(t *testing.T){
	"credentialsFile": func(t *testing.T) {
		conn, err := listenOnce(t)
		path := writeKey(t, "authorized_user")
		_, got := getSubscription(deadline(t, 300*time.Millisecond), Connection{ProjectID: testProject, Endpoint: conn.addr, CredentialsFile: path}, testSub)
		if err != nil || got == nil || strings.Contains(got.Error(), "credentials") {
			t.Errorf("a good file: %v, %v", err, got)
		}
		for what, c := range map[string]string{"gdch": writeKey(t, "gdch"), "no such file": filepath.Join(t.TempDir(), "none.json")} {
			_, err := getSubscription(t.Context(), Connection{ProjectID: testProject, CredentialsFile: c}, testSub)
			if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), c) {
				t.Errorf("%s: %v", what, err)
			}
		}
	},
	"endpoint": func(t *testing.T) {
		conn, err := listenOnce(t)
		if err != nil {
			t.Fatal(err)
		}
		_, got := getSubscription(deadline(t, 300*time.Millisecond), Connection{ProjectID: testProject, Endpoint: conn.addr, CredentialsFile: writeKey(t, "authorized_user")}, testSub)
		if got == nil || conn.first() != 0x16 {
			t.Errorf("%v; the first byte sent is %#x, want that of TLS", got, conn.first())
		}
	},
}

var readOptionEffects = map[string]optionEffect{
	"projectId": shows(func(t *testing.T, r *readRig) {
		req := capture[*pubsubpb.GetSubscriptionRequest](r, "GetSubscription")
		r.documentedOnly("projectId", "other-project")
		if err := r.prepare(); err == nil || req()[0].Subscription != "projects/other-project/subscriptions/orders-sub" {
			t.Errorf("%v, asked for %v", err, req())
		}
	}),
	"subscription": shows(func(t *testing.T, r *readRig) {
		r.publish(3)
		r.documented("subscription", testSub, "projectId", "other-project")
		r.checkAll(r.read(3, 5*time.Second), 3)
	}),
	"emulatorHost": shows(func(t *testing.T, r *readRig) {
		r.documented()
		if r.srv.RPCs()["GetSubscription"] != 1 {
			t.Errorf("calls %v", r.srv.RPCs())
		}
	}),
	"seek": shows(func(t *testing.T, r *readRig) {
		req := capture[*pubsubpb.SeekRequest](r, "Seek")
		r.documented("seek", "none")
		r.documented()
		if len(req()) != 0 {
			t.Error("none seeks")
		}
		r.documented("seek", "beginning")
		if q := req(); len(q) != 1 || q[0].GetTime().AsTime().Unix() != 0 || q[0].Subscription != testSub {
			t.Errorf("requests %v", q)
		}
	}),
	"seekTime": shows(func(t *testing.T, r *readRig) {
		req := capture[*pubsubpb.SeekRequest](r, "Seek")
		r.documented("seek", "timestamp", "seekTime", "2024-08-07T12:00:29.028-03:00")
		if q := req(); len(q) != 1 || !q[0].GetTime().AsTime().Equal(at("2024-08-07T15:00:29.028Z")) {
			t.Errorf("requests %v", q)
		}
	}),
	"seekSnapshot": shows(func(t *testing.T, r *readRig) {
		r.publish(5)
		if _, err := r.srv.CreateSnapshot(t.Context(), &pubsubpb.CreateSnapshotRequest{Name: "projects/test-project/snapshots/recovery", Subscription: testSub}); err != nil {
			t.Fatal(err)
		}
		r.documented()
		r.read(5, 5*time.Second)
		r.endJob()
		r.documented("seek", "snapshot", "seekSnapshot", "recovery")
		r.checkAll(r.read(5, 5*time.Second), 5)
	}),
	"limitTime": shows(func(t *testing.T, r *readRig) {
		limit := time.Now()
		publishAt := func(from, n int, when time.Time) {
			for i := range n {
				if _, err := r.srv.PublishAt(testTopic, when, &pubsubpb.PubsubMessage{Data: fmt.Appendf(nil, "id-%06d", from+i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		publishAt(0, 3, limit.Add(-time.Minute))
		publishAt(100, 2, limit)
		publishAt(3, 4, limit.Add(-time.Nanosecond))
		r.documented("trigger", "availableNow", "limitTime", limit.UTC().Format(time.RFC3339Nano))
		b := r.call()
		if !b.done {
			t.Error("the read goes on after a receive that reached the limit")
		}
		if s := r.stats(); s.Acked != 0 {
			t.Errorf("acknowledged before the commit: %+v", s)
		}
		b.commit()
		synctest.Wait()
		r.checkAll(b.got, 7)
		if s := r.stats(); s.Acked != 7 || s.Nacked != 2 || s.Unacked != 2 {
			t.Errorf("%+v", s)
		}
	}),
	"trigger": shows(func(t *testing.T, r *readRig) {
		r.publish(50)
		r.documented("trigger", "availableNow")
		began, n := time.Now(), 0
		for b := r.call(); ; b = r.call() {
			n += len(b.got)
			if b.commit().done {
				break
			}
		}
		if d := time.Since(began); n != 50 || d < 3*time.Second || d > 8*time.Second {
			t.Errorf("availableNow read %d and ended after %v", n, d)
		}
		r.endJob()
		r.publish(5)
		r.documented("trigger", "once", "receiveTime", "7s")
		if b := r.call().commit(); !b.done || b.took != 7*time.Second || len(b.got) != 5 {
			t.Errorf("once: %d messages, %v, done %v", len(b.got), b.took, b.done)
		}
		r.endJob()
		r.documented("trigger", "processingTime")
		for range 100 {
			if r.call().commit().done {
				t.Fatal("processingTime ends")
			}
			time.Sleep(time.Second)
		}
	}),
	"maxRetryTime": shows(func(t *testing.T, r *readRig) {
		r.publish(5)
		r.documented("maxRetryTime", "3s")
		acks := r.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", Code: codes.Unavailable})
		r.call().commit()
		time.Sleep(3*time.Second + time.Millisecond)
		n := acks.Fired()
		time.Sleep(time.Minute)
		if n < 4 || acks.Fired() != n || r.reader().Stats().SettleFailed.Load() != 5 {
			t.Errorf("%d tries in 3s, %d in a minute, settle_failed %d", n, acks.Fired(), r.reader().Stats().SettleFailed.Load())
		}
	}),
	"ackMode": shows(func(t *testing.T, r *readRig) {
		r.publish(5)
		r.documented("ackMode", "early")
		r.call()
		if s := r.stats(); s.Acked != 5 {
			t.Errorf("early: %+v", s)
		}
	}),
	"ackDeadline": shows(func(t *testing.T, r *readRig) {
		opened := capture[*pubsubpb.StreamingPullRequest](r, "StreamingPull")
		renewed := capture[*pubsubpb.ModifyAckDeadlineRequest](r, "ModifyAckDeadline")
		steps := func() (s []int32) {
			for _, m := range renewed() {
				if d := m.AckDeadlineSeconds; d > 0 && !slices.Contains(s, d) {
					s = append(s, d)
				}
			}
			return s
		}
		r.publish(5)
		r.documented("ackDeadline", "25s")
		b := r.call().ends(true)
		time.Sleep(time.Minute)
		if q := opened(); len(q) != 1 || q[0].StreamAckDeadlineSeconds != 25 || fmt.Sprint(steps()) != "[25]" {
			t.Errorf("opened with %v, renewed by %v", q, steps())
		}
		b.finalize()
		r.endJob()

		r.publish(5)
		r.documented()
		b = r.call().ends(true)
		time.Sleep(100 * time.Second)
		if q := opened(); q[1].StreamAckDeadlineSeconds != 180 || !slices.Contains(steps(), 180) {
			t.Errorf("auto: opened with %v, renewed by %v", q[1], steps())
		}
		b.finalize() // a commit takes 100 s, it seems
		synctest.Wait()
		r.publish(5)
		b = r.call().ends(true)
		time.Sleep(3 * time.Minute)
		if !slices.Contains(steps(), 300) {
			t.Errorf("after a commit of 100s: renewed by %v, want 300 too", steps())
		}
		b.finalize()
	}),
	"gatherMode": shows(func(t *testing.T, r *readRig) {
		for mode, want := range map[string]time.Duration{"batch": 20 * time.Second, "immediate": 0, "pull": 0} {
			r.publish(5)
			r.documented("gatherMode", mode, "receiveTime", "20s")
			if b := r.call().commit(); len(b.got) != 5 || b.took > want+10*time.Millisecond || b.took < want {
				t.Errorf("%s: %d messages in %v, want %v", mode, len(b.got), b.took, want)
			}
			r.endJob()
		}
	}),
	"receiveTime": shows(func(t *testing.T, r *readRig) {
		r.documented("receiveTime", "5s")
		for range 6 { // idle or not
			if b := r.call().commit(); b.took != 5*time.Second {
				t.Errorf("a call of %v", b.took)
			}
		}
		r.endJob()
		r.documented("receiveTime", "auto", "processingTime", "60s")
		r.publish(5)
		b := r.call().ends(true)
		if b.took != 44*time.Second { // a quarter for the write, a second for margin
			t.Errorf("auto: a first call of %v", b.took)
		}
		time.Sleep(100 * time.Millisecond)
		b.finalize()
		synctest.Wait()
		if b := r.call().commit(); b.took < 58*time.Second || b.took > 59*time.Second {
			t.Errorf("auto: a call of %v once the write is known to be quick", b.took)
		}
		r.endJob()
		r.documented()
		r.publish(5)
		if b := r.call().commit(); len(b.got) != 5 || b.took > 50*time.Millisecond {
			t.Errorf("nothing configured: %d messages in %v", len(b.got), b.took)
		}
	}),
	"processingTime": shows(func(t *testing.T, r *readRig) {
		r.documented("processingTime", "10s", "receiveTime", "2s")
		var began []time.Time
		for range 5 {
			r.publish(1)
			b := r.call().commit()
			began = append(began, b.began)
			b.pause()
		}
		for i := 1; i < len(began); i++ {
			if d := began[i].Sub(began[i-1]); d != 10*time.Second {
				t.Errorf("bundle %d began %v after the one before", i, d)
			}
		}
	}),
	"batchSize": shows(func(t *testing.T, r *readRig) {
		for range 12 {
			r.store(&pubsubpb.PubsubMessage{Data: make([]byte, 1000)})
		}
		r.documented("batchSize", "4k", "maxOutstandingBytes", "64k")
		if b := r.call().commit(); len(b.got) != 4 {
			t.Errorf("%d messages of 1000 bytes in a bundle of 4096", len(b.got))
		}
	}),
	"batchCount": shows(func(t *testing.T, r *readRig) {
		r.publish(50)
		r.documented("batchCount", "7")
		for range 3 {
			if b := r.call().commit(); len(b.got) != 7 {
				t.Errorf("a bundle of %d", len(b.got))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s := r.stats(); s.PeakOutstanding > 7 {
			t.Errorf("%d outstanding", s.PeakOutstanding)
		}
	}),
	"commitTimeout": shows(func(t *testing.T, r *readRig) {
		r.publish(5)
		r.documented("commitTimeout", "90s")
		r.call().ends(true)
		time.Sleep(89 * time.Second)
		if s := r.stats(); s.Nacked != 0 {
			t.Errorf("too early: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if n := r.srv.Stats(testSub).Nacked; n != 5 {
			t.Errorf("%d given back", n)
		}
	}),
	"schemaMode": shows(func(t *testing.T, r *readRig) {
		for mode, want := range map[string]string{"raw": "data", "basic": "data id time", "slim": "data id time key"} {
			r.store(wholeMessage())
			r.documented("schemaMode", mode)
			if got := filled(r.read(1, 5*time.Second)[0]); got != want {
				t.Errorf("%s: %s, want %s", mode, got, want)
			}
			r.endJob()
		}
	}),
	"metadataMode": shows(func(t *testing.T, r *readRig) {
		for mode, want := range map[string]string{"none": "data", "basic": "data id time", "slim": "data id time key ack", "full": "data id time key ack attributes"} {
			r.store(wholeMessage())
			r.documented("schemaMode", "raw", "metadataMode", mode)
			if got := filled(r.read(1, 5*time.Second)[0]); got != want {
				t.Errorf("%s: %s, want %s", mode, got, want)
			}
			r.endJob()
		}
	}),
	"topic": shows(func(t *testing.T, r *readRig) {
		def := `{"type":"record","name":"order","fields":[{"name":"id","type":"long"},{"name":"item","type":"string"}]}`
		schema, err := r.srv.CreateSchema(t.Context(), &pubsubpb.CreateSchemaRequest{
			Parent: "projects/test-project", SchemaId: "order", Schema: &pubsubpb.Schema{Type: pubsubpb.Schema_AVRO, Definition: def},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.srv.CreateTopic(t.Context(), &pubsubpb.Topic{
			Name: "projects/test-project/topics/typed", SchemaSettings: &pubsubpb.SchemaSettings{Schema: schema.Name, Encoding: pubsubpb.Encoding_JSON},
		}); err != nil {
			t.Fatal(err)
		}
		r.store(&pubsubpb.PubsubMessage{Data: []byte(`{"id":7,"item":"tea"}`)})
		r.documented("schemaMode", "dynamic", "topic", "typed")
		if m := r.read(1, 5*time.Second)[0]; len(m.Fields) != 2 || m.Fields[0].Name != "id" || m.Fields[1].Name != "item" {
			t.Errorf("fields %v", m.Fields)
		}
	}),
	"schema": shows(func(t *testing.T, r *readRig) {
		r.store(&pubsubpb.PubsubMessage{Data: []byte(`{"id":7,"item":"tea"}`)})
		r.documented("schema", "item STRING")
		if m := r.read(1, 5*time.Second)[0]; len(m.Fields) != 1 || m.Fields[0].Name != "item" || len(m.Data) == 0 {
			t.Errorf("%+v", m)
		}
	}),
	"maxOutstandingMessages": shows(func(t *testing.T, r *readRig) {
		req := capture[*pubsubpb.StreamingPullRequest](r, "StreamingPull")
		r.publish(500)
		r.documented("maxOutstandingMessages", "30")
		for range 10 {
			r.call().ends(true) // never committed
			time.Sleep(time.Second)
		}
		if s := r.stats(); s.PeakOutstanding != 30 || req()[0].MaxOutstandingMessages != 30 {
			t.Errorf("%d outstanding, asked for %d", s.PeakOutstanding, req()[0].MaxOutstandingMessages)
		}
	}),
	"maxOutstandingBytes": shows(func(t *testing.T, r *readRig) {
		req := capture[*pubsubpb.StreamingPullRequest](r, "StreamingPull")
		for range 100 {
			r.store(&pubsubpb.PubsubMessage{Data: make([]byte, 1000)})
		}
		r.documented("maxOutstandingBytes", "8k")
		for range 10 {
			r.call().ends(true)
			time.Sleep(time.Second)
		}
		if s := r.stats(); s.PeakOutstanding > 9 || req()[0].MaxOutstandingBytes != 8192 {
			t.Errorf("%d outstanding, asked for %d", s.PeakOutstanding, req()[0].MaxOutstandingBytes)
		}
	}),
	"maxWorkers": shows(func(t *testing.T, r *readRig) {
		for runner, want := range map[string]int{"flink": 3, "dataflow": 3, "prism": 1} {
			r.documented("maxWorkers", "3", "runner", runner)
			r.fn.Config.Runner = runner
			if got := r.fn.SplitRestriction(r.bundleContext("split"), nil, r.fn.CreateInitialRestriction(nil)); len(got) != want {
				t.Errorf("%s: %d reader groups, want %d", runner, len(got), want)
			}
		}
	}),
	"clientsPerWorker": shows(func(t *testing.T, r *readRig) {
		r.documented("clientsPerWorker", "2", "streams", "2")
		r.call().commit()
		time.Sleep(2 * time.Second)
		if c := r.srv.Connections(); c.Peak != 2 {
			t.Errorf("%+v", c)
		}
	}),
	"streams": shows(func(t *testing.T, r *readRig) {
		r.documented("streams", "3")
		r.call().commit()
		time.Sleep(2 * time.Second)
		if s := r.stats(); s.StreamsOpen != 3 || r.srv.Connections().Peak != 1 {
			t.Errorf("%d streams, %+v", s.StreamsOpen, r.srv.Connections())
		}
	}),
	"stallTimeout": shows(func(t *testing.T, r *readRig) {
		r.documented("stallTimeout", "6s")
		for range 8 {
			r.call().commit()
			time.Sleep(time.Second)
		}
		r.srv.MuteStreams(testSub, true)
		began := time.Now()
		for r.srv.Stats(testSub).StreamsOpened < 2 {
			r.call().commit()
			time.Sleep(100 * time.Millisecond)
			if time.Since(began) > time.Minute {
				t.Fatal("not replaced")
			}
		}
		if d := time.Since(began); d > 8*time.Second || d < 2*time.Second {
			t.Errorf("replaced after %v", d)
		}
	}),
	"runner": shows(func(t *testing.T, r *readRig) {
		for runner, want := range map[string]int64{"prism": 5, "flink": 0} {
			before := r.stats().Acked
			r.publish(5)
			r.documented("runner", runner)
			r.fn.Config.Runner = runner
			r.call().commit()
			if n := r.stats().Acked - before; n != want {
				t.Errorf("%s: %d acknowledged at the bundle's own finalization, want %d", runner, n, want)
			}
			time.Sleep(time.Second)
			r.call().commit() // a later one vouches
			if n := r.stats().Acked - before; n != 5 {
				t.Errorf("%s: %d acknowledged at the next", runner, n)
			}
			r.endJob()
		}
	}),
	"timestampAttribute": shows(func(t *testing.T, r *readRig) {
		r.store(&pubsubpb.PubsubMessage{Attributes: map[string]string{"ts": "1999-01-02T03:04:05Z"}})
		r.documented("timestampAttribute", "ts")
		if b := r.call().commit(); len(b.times) != 1 || !b.times[0].ToTime().Equal(at("1999-01-02T03:04:05Z")) {
			t.Errorf("event times %v", b.times)
		}
	}),
	"timestampSlack": shows(func(t *testing.T, r *readRig) {
		var marks []time.Duration
		for _, slack := range []string{"0s", "300s"} {
			r.store(&pubsubpb.PubsubMessage{Attributes: map[string]string{"ts": strconv.FormatInt(time.Now().UnixMilli(), 10)}})
			r.documented("timestampAttribute", "ts", "timestampSlack", slack)
			r.follow(12 * time.Second)
			marks = append(marks, time.Since(r.watermark()))
			r.endJob()
		}
		if d := marks[1] - marks[0]; d < 295*time.Second || d > 305*time.Second {
			t.Errorf("the watermark lies back by %v more with a slack of 300s", d)
		}
	}),
	"idAttribute": shows(func(t *testing.T, r *readRig) {
		for range 3 {
			r.store(&pubsubpb.PubsubMessage{Attributes: map[string]string{"id": "same"}})
		}
		r.documented("idAttribute", "id")
		if b := r.call().commit(); len(b.got) != 1 {
			t.Errorf("%d messages of one id", len(b.got))
		}
	}),
	"watermarkPolicy": shows(func(t *testing.T, r *readRig) {
		old := func() {
			if _, err := r.srv.PublishAt(testTopic, time.Now().Add(-time.Hour), &pubsubpb.PubsubMessage{Data: []byte("old")}); err != nil {
				t.Fatal(err)
			}
		}
		for policy, want := range map[string]time.Duration{"publishTime": time.Hour, "wallTime": 10 * time.Second} {
			r.documented("watermarkPolicy", policy)
			for range 40 {
				old()
				r.call().commit()
				time.Sleep(time.Second)
			}
			if lag := time.Since(r.watermark()); lag < want || lag > want+65*time.Second { // it follows the oldest of a minute
				t.Errorf("%s: %v behind, want %v", policy, lag, want)
			}
			r.endJob()
		}
	}),
	"maxLag": shows(func(t *testing.T, r *readRig) {
		if _, err := r.srv.PublishAt(testTopic, time.Now().Add(-time.Hour), &pubsubpb.PubsubMessage{Data: []byte("old")}); err != nil {
			t.Fatal(err)
		}
		r.documented("watermarkPolicy", "publishTimeWithMaxLag", "maxLag", "2m")
		r.call().commit()
		time.Sleep(100 * time.Millisecond)
		r.call().commit()
		if lag := time.Since(r.watermark()); lag < 2*time.Minute || lag > 2*time.Minute+time.Second {
			t.Errorf("%v behind", lag)
		}
	}),
	"watermarkFunc": shows(func(t *testing.T, r *readRig) {
		r.publish(3)
		r.documented("watermarkFunc", "mine") // it follows the clock closely
		r.call().commit()
		if lag := time.Since(r.watermark()); lag > time.Second {
			t.Errorf("%v behind", lag)
		}
	}),
	"idleThreshold": shows(func(t *testing.T, r *readRig) {
		r.documented("idleThreshold", "40s")
		r.publish(1)
		r.follow(35 * time.Second)
		if lag := time.Since(r.watermark()); lag < 35*time.Second {
			t.Errorf("%v behind before the threshold", lag)
		}
		r.follow(10 * time.Second)
		if lag := time.Since(r.watermark()); lag > 15*time.Second {
			t.Errorf("%v behind after it", lag)
		}
	}),
}

// numWriters is shown on Prism, see TestNumWritersSplitsEachBundle.
var shownElsewhere = []string{"numWriters"}

func TestEveryReadOptionShowsItsEffect(t *testing.T) {
	var known []string
	for _, o := range readTable.Options {
		known = append(known, o.Name)
		e, inBubble := readOptionEffects[o.Name]
		plain, isPlain := plainEffects[o.Name]
		switch {
		case inBubble:
			t.Run(o.Name, func(t *testing.T) { readBubble(t, e.settings, e.check) })
		case isPlain:
			t.Run(o.Name, plain)
		case !slices.Contains(shownElsewhere, o.Name):
			t.Errorf("%s has no row: what does it do?", o.Name)
		}
	}
	for name := range readOptionEffects {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no option", name)
		}
	}
}

func wholeMessage() *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte("body"), OrderingKey: "key", Attributes: map[string]string{"a": "b"}}
}

// filled names what is set of a message.
func filled(m Message) string {
	var set []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"data", len(m.Data) > 0},
		{"id", m.MessageID != ""},
		{"time", !m.PublishTime.IsZero()},
		{"key", m.OrderingKey != ""},
		{"ack", m.AckID != ""},
		{"attributes", len(m.Attributes) > 0},
	} {
		if f.is {
			set = append(set, f.name)
		}
	}
	return strings.Join(set, " ")
}

// writeKey writes a credentials file with a key that opens nothing.
func writeKey(t *testing.T, kind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), kind+".json")
	text := fmt.Sprintf(`{"type":%q,"client_id":"id","client_secret":"S3cr3t-Zq9","refresh_token":"S3cr3t-Zq9","private_key":"S3cr3t-Zq9"}`, kind)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A listener takes one connection and keeps its first byte.
type listener struct {
	addr string
	got  chan byte
}

func listenOnce(t *testing.T) (*listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = l.Close() })
	out := &listener{l.Addr().String(), make(chan byte, 1)}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 1)
		if _, err := c.Read(b); err == nil {
			out.got <- b[0]
		}
	}()
	return out, nil
}

func (l *listener) first() byte {
	select {
	case b := <-l.got:
		return b
	case <-time.After(time.Second):
		return 0
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
