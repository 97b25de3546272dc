package pubsubio

import (
	"time"
)

// A Field is one decoded column of a message.
type Field struct {
	Name  string
	Value Value
}

// A Kind says which part of a Value holds it.
type Kind uint8

// The kinds of values. Their numbers are part of the encoding.
const (
	KindNull      Kind = 0
	KindBool      Kind = 1
	KindInt       Kind = 2  // int, long
	KindFloat     Kind = 3  // float, double
	KindString    Kind = 4  // string, enum, uuid
	KindBytes     Kind = 5  // bytes, fixed
	KindTimestamp Kind = 6  // timestamp-millis, timestamp-micros, local ones too
	KindDate      Kind = 7  // date, at midnight UTC
	KindTime      Kind = 8  // time-millis, time-micros: of the day
	KindDecimal   Kind = 9  // decimal, as text, so that no digit is lost
	KindArray     Kind = 10 // array
	KindMap       Kind = 11 // map, sorted by key
	KindRecord    Kind = 12 // record, in schema order
)

// A Value is a typed value of a Field. Kind says which of the other parts holds
// it; they are zero otherwise.
type Value struct {
	Kind   Kind
	Bool   bool
	Int    int64   // KindInt; nanoseconds of KindTime
	Float  float64 // KindFloat
	String string  // KindString, KindDecimal
	Bytes  []byte
	Time   time.Time // KindTimestamp, KindDate; UTC
	Items  []Value   // KindArray
	Fields []Field   // KindMap, KindRecord
}
