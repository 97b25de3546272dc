package pubsubio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	schemaModes   = []SchemaMode{SchemaRaw, SchemaBasic, SchemaSlim, SchemaDynamic, SchemaMixed}
	metadataModes = []MetadataMode{MetadataNone, MetadataBasic, MetadataSlim, MetadataFull}
)

// received is a message as it comes from the service, with every field set.
func received() Message {
	return Message{
		Data: []byte("body"), Attributes: map[string]string{"b": "2", "a": "<1>"}, MessageID: "42",
		PublishTime: nanos, OrderingKey: "key", AckID: "ack", DeliveryAttempt: 3,
	}
}

const columnsGolden = "testdata/columns.golden"

// TestColumnsOfEachMode holds, for the five schema modes and the four metadata
// modes, the columns and the row of one message.
func TestColumnsOfEachMode(t *testing.T) {
	var b bytes.Buffer
	for _, s := range schemaModes {
		for _, md := range metadataModes {
			m := received()
			if s == SchemaDynamic || s == SchemaMixed {
				m.Fields = []Field{{"id", Value{Kind: KindInt, Int: 1}}, {"name", Value{Kind: KindString, String: "x"}}}
			}
			newProjection(s, md).project(&m)
			row, err := Row(m, s, md)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s: %s\n  %s\n", s, md, strings.Join(Columns(s, md), ", "), row)
			checkUnset(t, m, s, md)
		}
	}
	if *update {
		if err := os.WriteFile(columnsGolden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(columnsGolden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(golden) {
		t.Errorf("columns:\n%s\nwere:\n%s", got, golden)
	}
}

// checkUnset holds the Go message against its columns: what is no column is
// zero, and what is one is as it was received.
func checkUnset(t *testing.T, m Message, s SchemaMode, md MetadataMode) {
	t.Helper()
	full := received()
	cols := "," + strings.Join(Columns(s, md), ",") + ","
	for name, set := range map[string]bool{
		"body":        string(m.Data) == "body",
		"messageid":   m.MessageID == "42",
		"publishtime": m.PublishTime.Equal(nanos),
		"orderingkey": m.OrderingKey == "key",
		"ackid":       m.AckID == "ack" && m.DeliveryAttempt == 3,
		"attributes":  len(m.Attributes) == len(full.Attributes),
	} {
		want := strings.Contains(cols, ","+name+",")
		if set != want {
			t.Errorf("%s %s: %s set: %t, want %t in %+v", s, md, name, set, want, m)
		}
	}
}

// TestDocumentedColumns is the document's own table.
func TestDocumentedColumns(t *testing.T) {
	for _, c := range []struct {
		s     SchemaMode
		md    MetadataMode
		extra string
	}{
		{SchemaBasic, MetadataBasic, ""},
		{SchemaMixed, MetadataBasic, ""},
		{SchemaSlim, MetadataSlim, "ackid"},
		{SchemaDynamic, MetadataBasic, "messageid,publishtime"},
	} {
		plain, with := Columns(c.s, MetadataNone), Columns(c.s, c.md)
		if got := strings.Join(with[len(plain):], ","); got != c.extra {
			t.Errorf("%s %s adds %q, want %q", c.s, c.md, got, c.extra)
		}
	}
}

func TestRowOfEveryKind(t *testing.T) {
	got, err := Row(Message{Fields: everyKind}, SchemaDynamic, MetadataNone)
	want := `{"null":null,"bool":true,"int":-9223372036854775808,"float":-0.1,"string":"grün","bytes":"AP8=",` +
		`"timestamp":"2026-09-18T12:34:45.123456789Z","date":"1969-12-31","time":"13:00:00","decimal":-12345678901234567890.10,` +
		`"array":[1,null],"map":{"k":"v"},"record":{"a":false},"empty array":[]}`
	if err != nil || string(got) != want {
		t.Errorf("row %s, %v, want %s", got, err, want)
	}
	if !json.Valid(got) {
		t.Error("the row is not JSON")
	}
}

func TestFieldsTakeThePlaceOfColumns(t *testing.T) {
	m := Message{MessageID: "42", PublishTime: time.Unix(0, 0), Fields: []Field{{"messageid", Value{Kind: KindInt, Int: 7}}}}
	got, err := Row(m, SchemaMixed, MetadataNone)
	if want := `{"messageid":7,"publishtime":"1970-01-01T00:00:00Z"}`; err != nil || string(got) != want {
		t.Errorf("row %s, %v, want %s", got, err, want)
	}
}
