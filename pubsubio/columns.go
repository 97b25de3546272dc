package pubsubio

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// The documented columns of a message.
const (
	colBody        = "body"
	colMessageID   = "messageid"
	colPublishTime = "publishtime"
	colOrderingKey = "orderingkey"
	colAckID       = "ackid"
	colAttributes  = "attributes"
	// FieldsColumn stands, in the list that Columns returns, for the decoded
	// fields of a message.
	FieldsColumn = "*"
)

// schemaColumns are the columns of each SchemaMode.
var schemaColumns = map[SchemaMode][]string{
	SchemaRaw:     {colBody},
	SchemaBasic:   {colBody, colMessageID, colPublishTime},
	SchemaSlim:    {colBody, colMessageID, colPublishTime, colOrderingKey},
	SchemaDynamic: {FieldsColumn},
	SchemaMixed:   {FieldsColumn, colMessageID, colPublishTime},
}

// metadataColumns are the columns each MetadataMode adds.
var metadataColumns = map[MetadataMode][]string{
	MetadataBasic: {colMessageID, colPublishTime},
	MetadataSlim:  {colMessageID, colPublishTime, colOrderingKey, colAckID},
	MetadataFull:  {colMessageID, colPublishTime, colOrderingKey, colAckID, colAttributes},
}

// Columns returns the documented columns of a message, in order: those of the
// schema mode, then those of the metadata mode that are not there already.
func Columns(s SchemaMode, md MetadataMode) []string {
	cols := slices.Clone(schemaColumns[s])
	for _, c := range metadataColumns[md] {
		if !slices.Contains(cols, c) {
			cols = append(cols, c)
		}
	}
	return cols
}

// A projection is what stays set of a message.
type projection struct {
	body, messageID, publishTime, orderingKey, ackID, attributes bool
}

func newProjection(s SchemaMode, md MetadataMode) projection {
	cols := Columns(s, md)
	has := func(c string) bool { return slices.Contains(cols, c) }
	return projection{
		body: has(colBody), messageID: has(colMessageID), publishTime: has(colPublishTime),
		orderingKey: has(colOrderingKey), ackID: has(colAckID), attributes: has(colAttributes),
	}
}

// project leaves unset what the modes do not ask for. The delivery attempt,
// which the documents do not know, goes with the ack id: both are about this
// delivery. Fields stay: they are there only when they were asked for.
func (p projection) project(m *Message) {
	if !p.body {
		m.Data = nil
	}
	if !p.messageID {
		m.MessageID = ""
	}
	if !p.publishTime {
		m.PublishTime = time.Time{}
	}
	if !p.orderingKey {
		m.OrderingKey = ""
	}
	if !p.ackID {
		m.AckID, m.DeliveryAttempt = "", 0
	}
	if !p.attributes {
		m.Attributes = nil
	}
}

// column returns a documented column of a message as a value.
func column(m *Message, name string) (Value, bool) {
	switch name {
	case colBody:
		return Value{Kind: KindBytes, Bytes: m.Data}, true
	case colMessageID:
		return Value{Kind: KindString, String: m.MessageID}, true
	case colPublishTime:
		return Value{Kind: KindTimestamp, Time: m.PublishTime}, true
	case colOrderingKey:
		return Value{Kind: KindString, String: m.OrderingKey}, true
	case colAckID:
		return Value{Kind: KindString, String: m.AckID}, true
	case colAttributes:
		v := Value{Kind: KindMap}
		for _, k := range slices.Sorted(maps.Keys(m.Attributes)) {
			v.Fields = append(v.Fields, Field{k, Value{Kind: KindString, String: m.Attributes[k]}})
		}
		return v, true
	}
	return Value{}, false
}

// Row returns a message as one line of JSON with the documented column names, in
// the order of Columns. Where the message has Fields (a user schema adds them in
// any mode), they come first, and a field takes the place of a column of its
// name. Bytes are base64, times RFC 3339, decimals numbers with all their
// digits.
func Row(m Message, s SchemaMode, md MetadataMode) ([]byte, error) {
	row := slices.Clone(m.Fields)
	named := map[string]bool{FieldsColumn: true}
	for _, f := range row {
		named[f.Name] = true
	}
	for _, c := range Columns(s, md) {
		if named[c] {
			continue
		}
		v, _ := column(&m, c)
		row = append(row, Field{c, v})
	}
	return appendRecord(nil, row)
}

func appendRecord(b []byte, fields []Field) ([]byte, error) {
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.Name), ':')
		var err error
		if b, err = appendJSON(b, f.Value); err != nil {
			return nil, fmt.Errorf("writing field %q: %w", f.Name, err)
		}
	}
	return append(b, '}'), nil
}

// MarshalJSON writes the value as Row does.
func (v Value) MarshalJSON() ([]byte, error) { return appendJSON(nil, v) }

func appendJSON(b []byte, v Value) ([]byte, error) {
	switch v.Kind {
	case KindNull:
		return append(b, "null"...), nil
	case KindBool:
		return strconv.AppendBool(b, v.Bool), nil
	case KindInt:
		return strconv.AppendInt(b, v.Int, 10), nil
	case KindFloat:
		return appendFloat(b, v.Float)
	case KindString:
		return appendString(b, v.String), nil
	case KindDecimal:
		if !json.Valid([]byte(v.String)) {
			return nil, fmt.Errorf("%q is not a decimal number", v.String)
		}
		return append(b, v.String...), nil
	case KindBytes:
		return appendString(b, base64.StdEncoding.EncodeToString(v.Bytes)), nil
	case KindTimestamp:
		if v.Time.IsZero() {
			return append(b, "null"...), nil
		}
		return appendString(b, v.Time.UTC().Format(time.RFC3339Nano)), nil
	case KindDate:
		return appendString(b, v.Time.UTC().Format(time.DateOnly)), nil
	case KindTime:
		return appendString(b, time.Unix(0, v.Int).UTC().Format("15:04:05.999999999")), nil
	case KindArray:
		return appendItems(b, v.Items)
	case KindMap, KindRecord:
		return appendRecord(b, v.Fields)
	}
	return nil, fmt.Errorf("a value has the unknown kind %d", v.Kind)
}

// appendFloat writes what JSON has no number for as text, as Avro does.
func appendFloat(b []byte, f float64) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return appendString(b, "NaN"), nil
	case math.IsInf(f, 1):
		return appendString(b, "Infinity"), nil
	case math.IsInf(f, -1):
		return appendString(b, "-Infinity"), nil
	}
	text, err := json.Marshal(f)
	return append(b, text...), err
}

func appendItems(b []byte, items []Value) ([]byte, error) {
	b = append(b, '[')
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJSON(b, item); err != nil {
			return nil, fmt.Errorf("writing item %d: %w", i, err)
		}
	}
	return append(b, ']'), nil
}

// appendString writes a string without escaping what only HTML would need.
func appendString(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string never fails
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
