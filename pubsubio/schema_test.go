package pubsubio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// schemaMap is a schemaSource: definitions by name@revision.
type schemaMap map[string]string

func (s schemaMap) Schema(_ context.Context, name, revision string) (string, error) {
	def, ok := s[name+"@"+revision]
	switch {
	case !ok:
		return "", status.Error(codes.NotFound, "no such revision")
	case def == "down":
		return "", status.Error(codes.Unavailable, "service down")
	case def == "protobuf":
		return "", fmt.Errorf("reading schema: %w", errProtobufSchema)
	}
	return def, nil
}

// record is the definition of a record with these fields.
func recordOf(fields string) string {
	return `{"type":"record","name":"r","namespace":"test","fields":[` + fields + `]}`
}

func topic(t *testing.T, fields string, revisions schemaMap) *topicSchema {
	t.Helper()
	ts, err := newTopicSchema(revisions, "orders", "new", recordOf(fields))
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// messageOf is a message of a topic with a schema.
func messageOf(revision, encoding, body string) *Message {
	return &Message{Data: []byte(body), Attributes: map[string]string{
		schemaNameAttribute: "orders", schemaRevisionAttribute: revision, schemaEncodingAttribute: encoding,
	}}
}

// rowOf writes fields as JSON, which is how the tests compare them.
func rowOf(t *testing.T, fields []Field) string {
	t.Helper()
	b, err := appendRecord(nil, fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNewDefaultedFieldIsFilledByDefault is case F32: the topic's schema got a
// field with a default, and messages of both revisions are in the backlog.
func TestNewDefaultedFieldIsFilledByDefault(t *testing.T) {
	old := `{"name":"id","type":"long"}`
	added := old + `,{"name":"currency","type":"string","default":"EUR"},{"name":"tags","type":{"type":"array","items":"string"},"default":["a"]},` +
		`{"name":"note","type":["null","string"],"default":null},{"name":"raw","type":"bytes","default":"\u00ff"},` +
		`{"name":"sub","type":{"type":"record","name":"sub","fields":[{"name":"x","type":"int"},{"name":"y","type":["int","null"],"default":2}]},"default":{"x":1}},` +
		`{"name":"fix","type":{"type":"fixed","name":"fix","size":2},"default":"ab"},{"name":"f","type":"float","default":0.5},{"name":"m","type":{"type":"map","values":"boolean"},"default":{"k":true}}`
	ts := topic(t, added, schemaMap{"orders@old": recordOf(old)})
	want := `{"id":7,"currency":"EUR","tags":["a"],"note":null,"raw":"/w==","sub":{"x":1,"y":2},"fix":"YWI=","f":0.5,"m":{"k":true}}`
	for _, m := range []*Message{messageOf("old", "JSON", `{"id":7}`), messageOf("old", "BINARY", "\x0e")} {
		fields, err := ts.decode(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if got := rowOf(t, fields); got != want {
			t.Errorf("%s: %s, want %s", m.Attributes[schemaEncodingAttribute], got, want)
		}
	}
	fields, err := ts.decode(t.Context(), messageOf("new", "JSON",
		`{"id":7,"currency":"USD","tags":[],"note":{"string":"n"},"raw":"","sub":{"x":3,"y":null},"fix":"cd","f":1,"m":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rowOf(t, fields), `{"id":7,"currency":"USD","tags":[],"note":"n","raw":"","sub":{"x":3,"y":null},"fix":"Y2Q=","f":1,"m":{}}`; got != want {
		t.Errorf("the new revision gives %s, want %s", got, want)
	}
}

// TestSchemaEvolution reads what one revision wrote by another.
func TestSchemaEvolution(t *testing.T) {
	cases := []struct {
		name, written, read, body, want, err string
	}{
		{"a field was dropped", `{"name":"a","type":"int"},{"name":"b","type":"string"}`, `{"name":"b","type":"string"}`, `{"a":1,"b":"x"}`, `{"b":"x"}`, ""},
		{"fields were reordered", `{"name":"a","type":"int"},{"name":"b","type":"int"}`, `{"name":"b","type":"int"},{"name":"a","type":"int"}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, ""},
		{"a field was renamed", `{"name":"a","type":"int"}`, `{"name":"b","aliases":["a"],"type":"int"}`, `{"a":1}`, `{"b":1}`, ""},
		{"int became long", `{"name":"a","type":"int"}`, `{"name":"a","type":"long"}`, `{"a":1}`, `{"a":1}`, ""},
		{"int became double", `{"name":"a","type":"int"}`, `{"name":"a","type":"double"}`, `{"a":1}`, `{"a":1}`, ""},
		{"float became double", `{"name":"a","type":"float"}`, `{"name":"a","type":"double"}`, `{"a":0.1}`, `{"a":0.1}`, ""},
		{"bytes became string", `{"name":"a","type":"bytes"}`, `{"name":"a","type":"string"}`, `{"a":"\u00c3\u00bc"}`, `{"a":"ü"}`, ""},
		{"string became bytes", `{"name":"a","type":"string"}`, `{"name":"a","type":"bytes"}`, `{"a":"ü"}`, `{"a":"w7w="}`, ""},
		{"a field became optional", `{"name":"a","type":"int"}`, `{"name":"a","type":["null","long"]}`, `{"a":1}`, `{"a":1}`, ""},
		{"an optional field became required, with a value", `{"name":"a","type":["null","int"]}`, `{"name":"a","type":"int"}`, `{"a":{"int":1}}`, `{"a":1}`, ""},
		{"an optional field became required, without", `{"name":"a","type":["null","int"]}`, `{"name":"a","type":"int"}`, `{"a":null}`, "", `field "a": was written as null and cannot be read as int`},
		{"a branch was added", `{"name":"a","type":["null","int"]}`, `{"name":"a","type":["string","null","int"]}`, `{"a":{"int":1}}`, `{"a":1}`, ""},
		{"a symbol is gone, with a default", `{"name":"a","type":{"type":"enum","name":"e","symbols":["A","B"]}}`, `{"name":"a","type":{"type":"enum","name":"e","symbols":["A"],"default":"A"}}`, `{"a":"B"}`, `{"a":"A"}`, ""},
		{"a symbol is gone", `{"name":"a","type":{"type":"enum","name":"e","symbols":["A","B"]}}`, `{"name":"a","type":{"type":"enum","name":"e","symbols":["A"]}}`, `{"a":"B"}`, "", `field "a": is a symbol that test.e, as it is read, does not have`},
		{"a field without default", `{"name":"a","type":"int"}`, `{"name":"a","type":"int"},{"name":"b","type":"int"}`, `{"a":1}`, "", `field "b": is not in the schema the message was written with, and has no default`},
		{"another type", `{"name":"a","type":"string"}`, `{"name":"a","type":"int"}`, `{"a":"1"}`, "", `field "a": was written as string and cannot be read as int`},
		{"long became int", `{"name":"a","type":"long"}`, `{"name":"a","type":"int"}`, `{"a":1}`, "", `field "a": was written as long and cannot be read as int`},
		{"another unit of time", `{"name":"a","type":{"type":"long","logicalType":"timestamp-millis"}}`, `{"name":"a","type":{"type":"long","logicalType":"timestamp-micros"}}`, `{"a":1500}`, `{"a":"1970-01-01T00:00:01.5Z"}`, ""},
		{"within records and arrays", `{"name":"a","type":{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"x","type":"int"}]}}}`, `{"name":"a","type":{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"y","type":"int","default":5},{"name":"x","type":"long"}]}}}`, `{"a":[{"x":1},{"x":2}]}`, `{"a":[{"y":5,"x":1},{"y":5,"x":2}]}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ts := topic(t, c.read, schemaMap{"orders@old": recordOf(c.written)})
			fields, err := ts.decode(t.Context(), messageOf("old", "JSON", c.body))
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := rowOf(t, fields); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// everything is a schema of each Avro type.
const everything = `{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"d","type":"double"},
{"name":"s","type":"string"},{"name":"y","type":"bytes"},{"name":"u","type":["null","string","long",{"type":"record","name":"sub","fields":[{"name":"x","type":"int"}]}]},
{"name":"e","type":{"type":"enum","name":"color","symbols":["RED","GREEN"]}},{"name":"x","type":{"type":"fixed","name":"four","size":4}},
{"name":"a","type":{"type":"array","items":["null","int"]}},{"name":"m","type":{"type":"map","values":"test.color"}},
{"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"tm","type":{"type":"long","logicalType":"timestamp-millis"}},
{"name":"dt","type":{"type":"int","logicalType":"date"}},{"name":"t","type":{"type":"int","logicalType":"time-millis"}},
{"name":"dec","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},{"name":"n","type":"null"},
{"name":"next","type":["null","r"]}`

// everythingJSON is a value of it in Avro's JSON encoding, everythingRow as Row
// writes it.
const (
	everythingJSON = `{"b":true,"i":-5,"l":9007199254740993,"f":0.1,"d":-1e300,"s":"grün","y":"\u0000\u00ff","u":{"test.sub":{"x":3}},"e":"GREEN","x":"\u0001\u0002\u0003\u0004",
"a":[null,{"int":1}],"m":{"z":"RED","k":"GREEN"},"ts":-1,"tm":1723042829028,"dt":-1,"t":3600000,"dec":"\u00fe\u00d4","n":null,"next":null}`
	everythingRow = `{"b":true,"i":-5,"l":9007199254740993,"f":0.1,"d":-1e+300,"s":"grün","y":"AP8=","u":{"x":3},"e":"GREEN","x":"AQIDBA==",` +
		`"a":[null,1],"m":{"k":"GREEN","z":"RED"},"ts":"1969-12-31T23:59:59.999999Z","tm":"2024-08-07T15:00:29.028Z","dt":"1969-12-31","t":"01:00:00","dec":-3.00,"n":null,"next":null}`
)

func TestJSONEncoding(t *testing.T) {
	fields, err := topic(t, everything, nil).decode(t.Context(), messageOf("new", "JSON", everythingJSON))
	if err != nil {
		t.Fatal(err)
	}
	if got := rowOf(t, fields); got != everythingRow {
		t.Errorf("%s\nwant\n%s", got, everythingRow)
	}
}

// TestBinaryEncoding decodes what another implementation encoded.
func TestBinaryEncoding(t *testing.T) {
	schema, err := parseAvro(recordOf(everything))
	if err != nil {
		t.Fatal(err)
	}
	body, err := avro.Marshal(schema, map[string]any{
		"b": true, "i": -5, "l": int64(9007199254740993), "f": float32(0.1), "d": -1e300, "s": "grün", "y": []byte{0, 255},
		"u": map[string]any{"test.sub": map[string]any{"x": 3}}, "e": "GREEN", "x": [4]byte{1, 2, 3, 4},
		"a": []any{nil, 1}, "m": map[string]any{"z": "RED", "k": "GREEN"},
		"ts": time.UnixMicro(-1).UTC(), "tm": time.UnixMilli(1723042829028).UTC(), "dt": time.Unix(-86400, 0).UTC(), "t": time.Hour,
		"dec": big.NewRat(-3, 1), "n": nil, "next": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	ts := topic(t, everything, nil)
	fields, err := ts.decode(t.Context(), messageOf("new", "BINARY", string(body)))
	if err != nil {
		t.Fatal(err)
	}
	if got := rowOf(t, fields); got != everythingRow {
		t.Errorf("%s\nwant\n%s", got, everythingRow)
	}
	for n := range body {
		if _, err := ts.decode(t.Context(), messageOf("new", "BINARY", string(body[:n]))); err == nil {
			t.Errorf("cut to %d of %d bytes it is decoded", n, len(body))
		}
	}
	if _, err := ts.decode(t.Context(), messageOf("new", "BINARY", string(body)+"x")); err == nil || err.Error() != "body: has 1 bytes more than its schema" {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestDecodeErrorsNameThePosition(t *testing.T) {
	fields := `{"name":"a","type":{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"x","type":"int"},{"name":"u","type":["null","string"],"default":null}]}}},{"name":"m","type":{"type":"map","values":"bytes"},"default":{}}`
	ts := topic(t, fields, schemaMap{"orders@down": "down", "orders@proto": "protobuf"})
	for body, want := range map[string]string{
		``:                                 `body: is empty`,
		`{"a":`:                            `body: is not JSON`,
		`{"a":[]} {}`:                      `body: has more than one JSON value`,
		`[]`:                               `body: is an array, not a record`,
		`{}`:                               `field "a": is missing`,
		`{"a":[{"x":1},{"x":"1"}]}`:        `field "a[1].x": is a string, not an int`,
		`{"a":[{"x":2147483648}]}`:         `field "a[0].x": is not a whole number that fits int`,
		`{"a":[{"x":1.5}]}`:                `field "a[0].x": is not a whole number that fits int`,
		`{"a":[{"x":1,"u":"s"}]}`:          `field "a[0].u": is a string, not a union, which is written {"string": ...}`,
		`{"a":[{"x":1,"u":{"int":1}}]}`:    `field "a[0].u": is a union of the unknown type "int"`,
		`{"a":[{"x":1,"u":{"string":1}}]}`: `field "a[0].u": is a number, not a string`,
		`{"a":[],"m":{"k":"\u0100"}}`:      `field "m.k": is not bytes: a code point is over 255`,
	} {
		_, err := ts.decode(t.Context(), messageOf("new", "JSON", body))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for body, want := range map[string]string{
		"":                     `field "a": ends too early`,
		"\x02\x02\x08":         `field "a[0].u": is a union of the unknown type 4`,
		"\x02\x02\x02\x7f":     `field "a[0].u": ends too early`,
		"\xfe\xff\xff\xff\x7f": `field "a": has more items than the 0 bytes left can hold`,
	} {
		_, err := ts.decode(t.Context(), messageOf("new", "BINARY", body))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
	_, err := ts.decode(t.Context(), messageOf("gone", "JSON", "{}"))
	if err == nil || !strings.Contains(err.Error(), `schema "orders@gone": `) || errors.Is(err, errSchemaUnavailable) {
		t.Errorf("a revision that is gone: %v", err)
	}
	if _, err := ts.decode(t.Context(), messageOf("down", "JSON", "{}")); !errors.Is(err, errSchemaUnavailable) {
		t.Errorf("a service that is down: %v", err)
	}
	if _, err := ts.decode(t.Context(), messageOf("proto", "JSON", "{}")); !errors.Is(err, errProtobufSchema) || errors.Is(err, errSchemaUnavailable) {
		t.Errorf("a Protobuf revision: %v", err)
	}
	if _, err := ts.decode(t.Context(), messageOf("new", "XML", "{}")); err == nil || err.Error() != `body: has the encoding "XML", which is not known` {
		t.Errorf("another encoding: %v", err)
	}
	if fields, err := ts.decode(t.Context(), &Message{Data: []byte(`{"a":[]}`)}); err != nil || rowOf(t, fields) != `{"a":[],"m":{}}` {
		t.Errorf("a message from before the schema: %v, %v", fields, err)
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for def, want := range map[string]string{
		`"string"`:                        "only a record has fields",
		`{`:                               "parsing Avro schema",
		`syntax = "proto3"; message M {}`: "parsing Avro schema",
	} {
		if _, err := newTopicSchema(nil, "orders", "", def); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"orders"`) {
			t.Errorf("%s: %v, want %q", def, err, want)
		}
	}
}

func TestUserSchema(t *testing.T) {
	avroSchema := recordOf(`{"name":"id","type":"long"},{"name":"name","type":["null","string"],"default":null},{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-millis"}]},{"name":"raw","type":["null","bytes"]}`)
	ddl := "id BIGINT NOT NULL, name STRING COMMENT 'a name, with comma', price DECIMAL(6,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>, sub STRUCT<x: INT NOT NULL, y: MAP<STRING, DOUBLE>>"
	cases := []struct{ name, schema, body, want, err string }{
		{"plain values", avroSchema, `{"id":1,"name":"n","at":"2024-08-07T12:00:29.028-03:00","raw":"AP8=","more":1}`, `{"id":1,"name":"n","at":"2024-08-07T15:00:29.028Z","raw":"AP8="}`, ""},
		{"Avro's unions", avroSchema, `{"id":1,"name":{"string":"n"},"at":{"long":1723042829028},"raw":null}`, `{"id":1,"name":"n","at":"2024-08-07T15:00:29.028Z","raw":null}`, ""},
		{"what may be absent", avroSchema, `{"id":1}`, `{"id":1,"name":null,"at":null,"raw":null}`, ""},
		{"what may not", avroSchema, `{"name":"n"}`, "", `field "id": is missing`},
		{"null where it may not be", avroSchema, `{"id":null}`, "", `field "id": is null, not a long`},
		{
			"columns", ddl, `{"id":9007199254740993,"name":"n","price":12.5,"at":1723042829,"day":"2024-08-07","tags":["a",null],"sub":{"x":1,"y":{"k":0.5}}}`,
			`{"id":9007199254740993,"name":"n","price":12.50,"at":"2024-08-07T15:00:29Z","day":"2024-08-07","tags":["a",null],"sub":{"x":1,"y":{"k":0.5}}}`, "",
		},
		{"columns that are absent", ddl, `{"id":1}`, `{"id":1,"name":null,"price":null,"at":null,"day":null,"tags":null,"sub":null}`, ""},
		{"too many digits", ddl, `{"id":1,"price":1.234}`, "", `field "price": does not fit decimal(6,2)`},
		{"deep inside", ddl, `{"id":1,"sub":{"x":1,"y":{"k":"0.5"}}}`, "", `field "sub.y.k": is a string, not a double`},
		{"no JSON", ddl, `hello`, "", `body: is not JSON`},
		{"no object", ddl, `[1]`, "", `body: is an array, not a JSON object`},
		{"documented columns", "messageid STRING, body BINARY, attributes MAP<STRING,STRING>", `not JSON`, `{"messageid":"42","body":"bm90IEpTT04=","attributes":{"k":"v"}}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			u, err := parseUserSchema(c.schema)
			if err != nil {
				t.Fatal(err)
			}
			fields, err := u.decode(&Message{Data: []byte(c.body), MessageID: "42", Attributes: map[string]string{"k": "v"}})
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := rowOf(t, fields); got != c.want {
				t.Errorf("%s\nwant\n%s", got, c.want)
			}
		})
	}
	u, _ := parseUserSchema("id INT")
	if _, err := u.decode(messageOf("new", "BINARY", "\x02")); err == nil || !strings.Contains(err.Error(), "binary encoding") {
		t.Errorf("a binary body: %v", err)
	}
}

func TestColumnListMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"id":                  `column "id": has the type nothing, which is not known`,
		"id BIGNT":            `column "id": has the type "BIGNT", which is not known`,
		"id INT,":             `has nothing where a column name should be`,
		"id INT id2 INT":      `column "id": has "id2" after its type`,
		"id INT, id INT":      `has the column "id" twice`,
		"`a b` INT":           `has the column "a b"; names are letters, digits and _`,
		"a ARRAY<INT":         `column "a": has nothing where > should be`,
		"a MAP<INT,INT>":      `column "a": has a map with "INT" keys; JSON has STRING keys only`,
		"a STRUCT<x INT":      `column "a": column "x": has nothing after its type`,
		"a DECIMAL(40,2)":     `column "a": has decimal(40,2); the precision is 1 to 38 and the scale at most that`,
		"a DECIMAL(x)":        `column "a": has "x" where a number or ) should be`,
		"a INT NOT":           `column "a": has NOT without NULL`,
		" ":                   `is empty`,
		`{"type":"record"}`:   `parsing Avro schema: avro: non-empty name key required`,
		`{"type":"enum"`:      `parsing Avro schema: `,
		"a INT COMMENT hello": `column "a": has "hello" where the text of a comment should be`,
	} {
		if err := checkUserSchema(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestDecoder(t *testing.T) {
	conn := Connection{ProjectID: "my-project"}
	cfg := func(opts ...ReadOption) readConfig {
		c, err := newReadConfig(conn, "my-subscription", opts...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sub := subscription{Schema: recordOf(`{"name":"id","type":"int"}`), SchemaName: "orders", SchemaRevision: "new"}
	in := received()
	in.Data = []byte(`{"id":5}`)
	want := Message{MessageID: "42", PublishTime: nanos, Fields: []Field{{"id", Value{Kind: KindInt, Int: 5}}}}
	d, err := newDecoder(conn, cfg(SchemaMixed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.decode(t.Context(), in); err == nil {
		t.Error("it decodes before the schema is known")
	}
	for range 2 {
		if err := d.prepare(sub); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.decode(t.Context(), in); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("mixed gives %+v, %v, want %+v", got, err, want)
	}
	d, err = newDecoder(conn, cfg(SchemaRaw, Schema("id STRING, messageid STRING")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.decode(t.Context(), in); err == nil || err.Error() != `field "id": is a number, not a string` {
		t.Errorf("a field that does not fit: %v", err)
	}
	d, _ = newDecoder(conn, cfg(SchemaRaw, Schema("id INT, messageid STRING")))
	want = Message{Data: in.Data, Fields: []Field{{"id", Value{Kind: KindInt, Int: 5}}, {"messageid", Value{Kind: KindString, String: "42"}}}}
	if got, err := d.decode(t.Context(), in); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a user schema gives %+v, %v, want %+v", got, err, want)
	}
}

func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	ts := topic(t, `{"name":"d","type":"double"}`, nil)
	for text, want := range map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)} {
		fields, err := ts.decode(t.Context(), messageOf("new", "JSON", `{"d":"`+text+`"}`))
		if err != nil || fmt.Sprint(fields[0].Value.Float) != fmt.Sprint(want) {
			t.Errorf("%s gives %v, %v", text, fields, err)
		}
		if got := rowOf(t, fields); got != `{"d":"`+text+`"}` {
			t.Errorf("%s is written %s", text, got)
		}
	}
}

func FuzzAvro(f *testing.F) {
	f.Add([]byte(everythingJSON))
	f.Add([]byte("\x01\x09\x0e"))
	f.Add([]byte(`{"next":{"test.r":{}}}`))
	rec, err := parseAvro(recordOf(everything))
	if err != nil {
		f.Fatal(err)
	}
	user, err := parseUserSchema(recordOf(everything))
	if err != nil {
		f.Fatal(err)
	}
	ts := &topicSchema{read: rec}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []*Message{{Data: b}, {Data: b, Attributes: map[string]string{schemaEncodingAttribute: "BINARY"}}} {
			fields, err := ts.decode(t.Context(), m)
			if err != nil {
				continue
			}
			enc, err := encodeMessage(Message{Fields: fields})
			if err != nil {
				t.Fatalf("%q is decoded and not encoded: %v", b, err)
			}
			if _, err := decodeMessage(enc); err != nil {
				t.Fatal(err)
			}
			if row, err := appendRecord(nil, fields); err != nil || !json.Valid(row) {
				t.Fatalf("%q gives the row %s, %v", b, row, err)
			}
		}
		_, _ = user.decode(&Message{Data: b})
	})
}

func FuzzColumnList(f *testing.F) {
	for _, s := range []string{"id BIGINT NOT NULL, name STRING", "a STRUCT<x: ARRAY<MAP<STRING,INT>>>", "`q` DECIMAL(3,1) COMMENT 'c'", "a ARRAY<ARRAY<"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := parseUserSchema(s); err == nil && len(u.record.Fields()) == 0 && u.form == sparkForm {
			t.Errorf("%q has no column", s)
		}
	})
}
