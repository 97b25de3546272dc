package bridge

import (
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterType(reflect.TypeFor[Record]())
	beam.RegisterType(reflect.TypeFor[FailedRecord]())
}

// A Record is a message in no broker's language. docs/bridge.md has the table
// of what each system maps it from and to.
type Record struct {
	// ID is the source's identity of the message, the same in a redelivery
	// where the source has such a thing.
	ID string
	// Destination is where the message itself asks to be sent; empty: where the
	// sink's options say.
	Destination string
	// Body is the payload. HasBody tells an empty one from none.
	Body    []byte
	HasBody bool
	// Text tells that the source calls the payload text.
	Text bool
	// Key orders messages among each other (ordering key, record key, group id).
	// HasKey tells an empty one from none.
	Key    []byte
	HasKey bool
	// Headers are the message's headers, in the source's order where it has one;
	// a name may come more than once.
	Headers []Header
	// Time is the event time.
	Time time.Time
}

// A Header is one header of a Record.
type Header struct {
	Name string
	// Value is the value as text or bytes. Numbers and booleans are in their
	// usual text form, and Kind says which they are.
	Value []byte
	Kind  Kind
}

// A Kind says what a header's value is at its source. Systems whose headers are
// untyped read and write KindText.
type Kind string

// The kinds of header values.
const (
	KindText  Kind = "text"
	KindBytes Kind = "bytes"
	KindInt   Kind = "int"
	KindFloat Kind = "float"
	KindBool  Kind = "bool"
	KindNull  Kind = "null"
)

// header makes a text header.
func header(name, value string) Header {
	return Header{Name: name, Value: []byte(value), Kind: KindText}
}

// A FailedRecord is a message that could not be read or written.
type FailedRecord struct {
	Record Record
	// Reason says what went wrong; it holds nothing of the payload.
	Reason string
	// Permanent: another try of the same message cannot succeed.
	Permanent bool
	// Unknown: the message may have been published all the same.
	Unknown bool
}
