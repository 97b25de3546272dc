package pubsubio

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files anew")

// A sample is a value of one of the message types, with how it is encoded.
type sample struct {
	name   string
	value  any
	encode func() ([]byte, error)
	decode func([]byte) (any, error)
}

func sampleOf[T any](name string, v T, enc func(T) ([]byte, error), dec func([]byte) (T, error)) sample {
	return sample{name, v, func() ([]byte, error) { return enc(v) }, func(b []byte) (any, error) { return dec(b) }}
}

var nanos = time.Date(2026, 9, 18, 12, 34, 45, 123456789, time.UTC)

// everyKind is a field of each kind of value.
var everyKind = []Field{
	{"null", Value{}},
	{"bool", Value{Kind: KindBool, Bool: true}},
	{"int", Value{Kind: KindInt, Int: math.MinInt64}},
	{"float", Value{Kind: KindFloat, Float: -0.1}},
	{"string", Value{Kind: KindString, String: "grün"}},
	{"bytes", Value{Kind: KindBytes, Bytes: []byte{0, 255}}},
	{"timestamp", Value{Kind: KindTimestamp, Time: nanos}},
	{"date", Value{Kind: KindDate, Time: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}},
	{"time", Value{Kind: KindTime, Int: int64(13 * time.Hour)}},
	{"decimal", Value{Kind: KindDecimal, String: "-12345678901234567890.10"}},
	{"array", Value{Kind: KindArray, Items: []Value{{Kind: KindInt, Int: 1}, {}}}},
	{"map", Value{Kind: KindMap, Fields: []Field{{"k", Value{Kind: KindString, String: "v"}}}}},
	{"record", Value{Kind: KindRecord, Fields: []Field{{"a", Value{Kind: KindBool}}}}},
	{"empty array", Value{Kind: KindArray}},
}

var sampleMessage = Message{
	Topic: "projects/p/topics/t", Data: []byte("body\x00"), Attributes: map[string]string{"b": "2", "a": "", "": "x"},
	MessageID: "1234567890", PublishTime: nanos, OrderingKey: "key", AckID: "ack", DeliveryAttempt: 5, Fields: everyKind,
}

var samples = []sample{
	sampleOf("message", sampleMessage, encodeMessage, decodeMessage),
	sampleOf("message of zero", Message{}, encodeMessage, decodeMessage),
	sampleOf("message with empty attributes", Message{Data: []byte("x"), Attributes: map[string]string{}}, encodeMessage, decodeMessage),
	sampleOf("message before 1970", Message{PublishTime: time.Unix(-1, 999999999).UTC()}, encodeMessage, decodeMessage),
	sampleOf("result", PublishResult{ID: "id", Topic: "projects/p/topics/t", MessageID: "7", Latency: 1500 * time.Microsecond}, encodePublishResult, decodePublishResult),
	sampleOf("result of zero", PublishResult{}, encodePublishResult, decodePublishResult),
	sampleOf("failed", FailedMessage{Message: sampleMessage, Reason: "data: 11 MB, the limit is 10", Permanent: true, Attempts: 3}, encodeFailedMessage, decodeFailedMessage),
	sampleOf("unknown", FailedMessage{Message: Message{Data: []byte("x")}, Reason: "no answer", Unknown: true}, encodeFailedMessage, decodeFailedMessage),
}

const coderGolden = "testdata/coder-v1.golden"

// TestEncodingsStay holds the encodings against those of earlier versions: a
// pipeline that is updated holds elements of its older self. The file grows
// with a version of its own when coderVersion does; none is ever changed.
func TestEncodingsStay(t *testing.T) {
	if *update {
		var b bytes.Buffer
		for _, s := range samples {
			enc, err := s.encode()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s: %x\n", s.name, enc)
		}
		if err := os.WriteFile(coderGolden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := map[string]string{}
	f, err := os.Open(coderGolden)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, enc, _ := strings.Cut(sc.Text(), ": ")
		golden[name] = enc
	}
	for _, s := range samples {
		enc, err := s.encode()
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if got := hex.EncodeToString(enc); got != golden[s.name] {
			t.Errorf("%s is encoded\n%s, was\n%s", s.name, got, golden[s.name])
		}
		old, _ := hex.DecodeString(golden[s.name])
		v, err := s.decode(old)
		if err != nil || !reflect.DeepEqual(v, s.value) {
			t.Errorf("%s is decoded to %+v, %v", s.name, v, err)
		}
	}
	if len(golden) != len(samples) {
		t.Errorf("%d golden encodings, %d samples", len(golden), len(samples))
	}
}

func TestBeamUsesTheCoders(t *testing.T) {
	beam.Init()
	for _, s := range samples {
		var b bytes.Buffer
		if err := beam.NewElementEncoder(reflect.TypeOf(s.value)).Encode(s.value, &b); err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		own, _ := s.encode()
		if !bytes.Contains(b.Bytes(), own) {
			t.Errorf("%s is encoded %x, not by its coder", s.name, b.Bytes())
		}
		v, err := beam.NewElementDecoder(reflect.TypeOf(s.value)).Decode(&b)
		if err != nil || !reflect.DeepEqual(v, s.value) {
			t.Errorf("%s comes back as %+v, %v", s.name, v, err)
		}
	}
}

func TestUnknownVersionIsNamed(t *testing.T) {
	for _, s := range samples {
		enc, _ := s.encode()
		enc[0] = 9
		_, err := s.decode(enc)
		if err == nil || !strings.HasSuffix(err.Error(), "its encoding has version 9, this program knows up to 1") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	if _, err := decodeMessage([]byte{1, 0x80, 0x40}); err == nil || !strings.Contains(err.Error(), "fields this program does not know") {
		t.Errorf("unknown field: %v", err)
	}
}

func TestCutEncodingsAreErrors(t *testing.T) {
	for _, s := range samples {
		enc, _ := s.encode()
		for n := range enc {
			if v, err := s.decode(enc[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes is decoded to %+v", s.name, n, len(enc), v)
			}
		}
		if _, err := s.decode(append(enc, 0)); err == nil || !strings.Contains(err.Error(), "1 bytes are left") {
			t.Errorf("%s with a byte too many: %v", s.name, err)
		}
	}
}

func TestNestingHasALimit(t *testing.T) {
	v := Value{Kind: KindBool}
	for range maxDepth - 1 {
		v = Value{Kind: KindArray, Items: []Value{v}}
	}
	enc, err := encodeMessage(Message{Fields: []Field{{"deep", v}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeMessage(enc); err != nil {
		t.Error(err)
	}
	v = Value{Kind: KindArray, Items: []Value{v}}
	if _, err := encodeMessage(Message{Fields: []Field{{"deep", v}}}); err == nil || !strings.Contains(err.Error(), `encoding field "deep": `) {
		t.Errorf("nested too deeply: %v", err)
	}
	deep := append([]byte{1, 0x80, 0x02, 1, 0}, bytes.Repeat([]byte{byte(KindArray), 1}, 100_000)...)
	if _, err := decodeMessage(deep); err == nil || !strings.Contains(err.Error(), "nested more than 64 deep") {
		t.Errorf("decoding what is nested too deeply: %v", err)
	}
}

// values draws a Value of any kind, as a decoder makes them.
func values(depth int) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		most := KindDecimal
		if depth > 0 {
			most = KindRecord
		}
		v := Value{Kind: Kind(rapid.IntRange(0, int(most)).Draw(t, "kind"))}
		switch v.Kind {
		case KindBool:
			v.Bool = rapid.Bool().Draw(t, "bool")
		case KindInt, KindTime:
			v.Int = rapid.Int64().Draw(t, "int")
		case KindFloat:
			v.Float = rapid.Float64().Draw(t, "float")
		case KindString, KindDecimal:
			v.String = rapid.String().Draw(t, "string")
		case KindBytes:
			v.Bytes = notEmpty(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		case KindTimestamp, KindDate:
			v.Time = time.Unix(rapid.Int64Range(-1e11, 1e11).Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
		case KindArray:
			v.Items = notEmpty(rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "items"))
		case KindMap, KindRecord:
			v.Fields = notEmpty(rapid.SliceOfN(drawFields(depth-1), 0, 3).Draw(t, "fields"))
		}
		return v
	})
}

func drawFields(depth int) *rapid.Generator[Field] {
	return rapid.Custom(func(t *rapid.T) Field {
		return Field{rapid.String().Draw(t, "name"), values(depth).Draw(t, "value")}
	})
}

func notEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

func TestMessagesComeBackEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		m := Message{
			Topic: text.Draw(t, "topic"), Data: notEmpty(rapid.SliceOf(rapid.Byte()).Draw(t, "data")),
			MessageID: text.Draw(t, "id"), OrderingKey: text.Draw(t, "key"), AckID: text.Draw(t, "ack"),
			DeliveryAttempt: rapid.Int32().Draw(t, "attempt"), Fields: notEmpty(rapid.SliceOfN(drawFields(2), 0, 3).Draw(t, "fields")),
		}
		if rapid.Bool().Draw(t, "has attributes") {
			m.Attributes = rapid.MapOfN(text, text, 0, 5).Draw(t, "attributes")
		}
		if rapid.Bool().Draw(t, "has time") {
			m.PublishTime = time.Unix(0, rapid.Int64().Draw(t, "time")).UTC()
		}
		enc, err := encodeMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := encodeMessage(m)
		if err != nil || !bytes.Equal(enc, again) {
			t.Fatal("two encodings of one message differ")
		}
		if got, err := decodeMessage(enc); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v comes back as %+v, %v", m, got, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		enc, _ := s.encode()
		f.Add(enc)
	}
	f.Add(append([]byte{1, 4}, bytes.Repeat([]byte{0xff}, 9)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMessage(b); err == nil {
			enc, err := encodeMessage(m)
			if err != nil {
				t.Fatalf("%+v is decoded and not encoded: %v", m, err)
			}
			if again, err := decodeMessage(enc); err != nil || !reflect.DeepEqual(plainNaN(again), plainNaN(m)) {
				t.Fatalf("%+v comes back as %+v, %v", m, again, err)
			}
		}
		_, _ = decodePublishResult(b)
		_, _ = decodeFailedMessage(b)
	})
}

// plainNaN makes messages with NaN comparable: by their text.
func plainNaN(m Message) string { return fmt.Sprintf("%+v", m) }

func BenchmarkCoder(b *testing.B) {
	m := Message{Data: make([]byte, 1024), MessageID: "1234567890123456", PublishTime: nanos, Attributes: map[string]string{"a": "1", "b": "2"}}
	b.ReportAllocs()
	for b.Loop() {
		enc, err := encodeMessage(m)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := decodeMessage(enc); err != nil {
			b.Fatal(err)
		}
	}
}
