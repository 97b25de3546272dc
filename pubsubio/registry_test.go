package pubsubio

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/schema"
)

// everySetting returns settings in which no field is zero.
func everySetting[C any](t *testing.T, c C) C {
	t.Helper()
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(nanos))
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(7)
		case f.Kind() == reflect.Slice:
			f.Set(reflect.ValueOf([]string{"a", "b"}))
		default:
			t.Fatalf("%T has the field %s of kind %s, which does not travel", c, v.Type().Field(i).Name, f.Kind())
		}
	}
	return c
}

// TestSettingsTravel sends each DoFn the way to a worker goes, as JSON: a field
// that is unexported, or of a type JSON cannot keep, comes back empty.
func TestSettingsTravel(t *testing.T) {
	beam.Init()
	conn := everySetting(t, Connection{})
	read, write := everySetting(t, readConfig{}), everySetting(t, writeConfig{})
	for _, f := range []any{
		&prepareFn{Conn: conn, Config: read},
		&readFn{Conn: conn, Config: read, Nonce: "n"},
		&writeFn{Conn: conn, Config: write, Nonce: "n"},
		&splitFn{Conn: conn, Config: write, Nonce: "n"},
		&writeChunkFn{Conn: conn, Config: write, Nonce: "n"},
	} {
		b, err := json.Marshal(f)
		if err != nil {
			t.Errorf("%T: %v", f, err)
			continue
		}
		back := reflect.New(reflect.TypeOf(f).Elem())
		if err := json.Unmarshal(b, back.Interface()); err != nil {
			t.Errorf("%T: %v", f, err)
			continue
		}
		for _, name := range []string{"Conn", "Config", "Nonce"} {
			sent := reflect.ValueOf(f).Elem().FieldByName(name)
			if !sent.IsValid() {
				continue
			}
			if got := back.Elem().FieldByName(name).Interface(); !reflect.DeepEqual(got, sent.Interface()) {
				t.Errorf("%T: %s was sent as %+v and came as %+v", f, name, sent, got)
			}
		}
	}
}

// An order is a type of a program that holds messages.
type order struct {
	ID     int64
	First  Message
	More   []Message
	Failed FailedMessage
	Result PublishResult
	Fields []Field
	Value  *Value
}

func init() { beam.RegisterType(reflect.TypeFor[order]()) }

func TestProgramsOwnTypesHoldMessages(t *testing.T) {
	beam.Init()
	in := order{
		ID: 7, First: sampleMessage, More: []Message{{}, {Data: []byte("x")}},
		Failed: FailedMessage{Message: sampleMessage, Reason: "r", Attempts: 2},
		Result: PublishResult{ID: "id", Latency: time.Second}, Fields: everyKind, Value: &everyKind[6].Value,
	}
	var b bytes.Buffer
	if err := beam.NewElementEncoder(reflect.TypeFor[order]()).Encode(in, &b); err != nil {
		t.Fatal(err)
	}
	out, err := beam.NewElementDecoder(reflect.TypeFor[order]()).Decode(&b)
	if err != nil || !reflect.DeepEqual(out, in) {
		t.Errorf("%+v, %v\nwant %+v", out, err, in)
	}
	s, err := schema.FromType(reflect.TypeFor[order]())
	if err != nil {
		t.Fatal(err)
	}
	typ, err := schema.ToType(s)
	if err != nil || typ != reflect.TypeFor[order]() {
		t.Errorf("a worker knows the type as %v, %v", typ, err)
	}
}

func TestOptionErrors(t *testing.T) {
	_, err := ReadFromMap(map[string]string{"batchsize": "1", "projectId": "p"})
	all := OptionErrors(err)
	var first *OptionError
	if len(all) != 2 || !errors.As(err, &first) || first != all[0] || first.Nearest != "batchSize" || all[1].Key != "subscription" {
		t.Errorf("%v is taken apart into %v", err, all)
	}
}
