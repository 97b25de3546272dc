package pubsubio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// The types have coders of their own. Beam's row coder writes a time.Time as
// JSON within the row, and it has no place for a value whose type is known at
// run time only, as those of Fields are: it follows a Value into its Items until
// the stack ends.
//
// Each encoding starts with a byte that is its version, then a bit set of the
// fields that are not zero, then these fields in the order of their bits.
// Numbers are varints, texts and bytes have their length before them, times are
// seconds and nanoseconds. Attributes are sorted, so equal messages have equal
// encodings.

func init() {
	register.Function1x2(encodeMessage)
	register.Function1x2(decodeMessage)
	register.Function1x2(encodePublishResult)
	register.Function1x2(decodePublishResult)
	register.Function1x2(encodeFailedMessage)
	register.Function1x2(decodeFailedMessage)
	beam.RegisterCoder(reflect.TypeFor[Message](), encodeMessage, decodeMessage)
	beam.RegisterCoder(reflect.TypeFor[PublishResult](), encodePublishResult, decodePublishResult)
	beam.RegisterCoder(reflect.TypeFor[FailedMessage](), encodeFailedMessage, decodeFailedMessage)
}

// coderVersion is the first byte of what is written. Decoding knows this and,
// once there is a second, all earlier ones: a pipeline that is updated holds
// elements of its older self.
const coderVersion = 1

// maxDepth bounds how deeply values hold values, so that no input can exhaust
// the stack. What decodes a message's body keeps to it too.
const maxDepth = 64

// The bits of the fields of a Message.
const (
	hasTopic = 1 << iota
	hasData
	hasAttributes
	hasMessageID
	hasPublishTime
	hasOrderingKey
	hasAckID
	hasDeliveryAttempt
	hasFields
	allMessageBits = 1<<iota - 1
)

func encodeMessage(m Message) ([]byte, error) {
	n := 64 + len(m.Topic) + len(m.Data) + len(m.MessageID) + len(m.OrderingKey) + len(m.AckID)
	for k, v := range m.Attributes {
		n += len(k) + len(v) + 4
	}
	return appendMessage(make([]byte, 0, n), m)
}

func appendMessage(b []byte, m Message) ([]byte, error) {
	bits := uint64(0)
	set := func(bit uint64, has bool) {
		if has {
			bits |= bit
		}
	}
	set(hasTopic, m.Topic != "")
	set(hasData, len(m.Data) > 0)
	set(hasAttributes, m.Attributes != nil)
	set(hasMessageID, m.MessageID != "")
	set(hasPublishTime, !m.PublishTime.IsZero())
	set(hasOrderingKey, m.OrderingKey != "")
	set(hasAckID, m.AckID != "")
	set(hasDeliveryAttempt, m.DeliveryAttempt != 0)
	set(hasFields, len(m.Fields) > 0)
	b = binary.AppendUvarint(append(b, coderVersion), bits)
	if bits&hasTopic != 0 {
		b = appendText(b, m.Topic)
	}
	if bits&hasData != 0 {
		b = appendText(b, m.Data)
	}
	if bits&hasAttributes != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Attributes)))
		for _, k := range slices.Sorted(maps.Keys(m.Attributes)) {
			b = appendText(appendText(b, k), m.Attributes[k])
		}
	}
	if bits&hasMessageID != 0 {
		b = appendText(b, m.MessageID)
	}
	if bits&hasPublishTime != 0 {
		b = appendTime(b, m.PublishTime)
	}
	if bits&hasOrderingKey != 0 {
		b = appendText(b, m.OrderingKey)
	}
	if bits&hasAckID != 0 {
		b = appendText(b, m.AckID)
	}
	if bits&hasDeliveryAttempt != 0 {
		b = binary.AppendVarint(b, int64(m.DeliveryAttempt))
	}
	if bits&hasFields != 0 {
		return appendFields(b, m.Fields, 0)
	}
	return b, nil
}

func decodeMessage(b []byte) (Message, error) {
	r := reader{rest: b, what: "a Message"}
	m := r.message()
	return m, r.end()
}

func (r *reader) message() Message {
	var m Message
	bits := r.start(allMessageBits)
	if bits&hasTopic != 0 {
		m.Topic = r.text()
	}
	if bits&hasData != 0 {
		m.Data = r.bytes()
	}
	if bits&hasAttributes != 0 {
		m.Attributes = r.attributes()
	}
	if bits&hasMessageID != 0 {
		m.MessageID = r.text()
	}
	if bits&hasPublishTime != 0 {
		m.PublishTime = r.time()
	}
	if bits&hasOrderingKey != 0 {
		m.OrderingKey = r.text()
	}
	if bits&hasAckID != 0 {
		m.AckID = r.text()
	}
	if bits&hasDeliveryAttempt != 0 {
		n := r.varint()
		if n < math.MinInt32 || n > math.MaxInt32 {
			r.fail("the delivery attempt is out of range")
		}
		m.DeliveryAttempt = int32(n)
	}
	if bits&hasFields != 0 {
		m.Fields = r.fields(0)
	}
	return m
}

func encodePublishResult(p PublishResult) ([]byte, error) {
	b := make([]byte, 0, 16+len(p.ID)+len(p.Topic)+len(p.MessageID))
	b = binary.AppendUvarint(append(b, coderVersion), 0)
	b = appendText(appendText(appendText(b, p.ID), p.Topic), p.MessageID)
	return binary.AppendVarint(b, int64(p.Latency)), nil
}

func decodePublishResult(b []byte) (PublishResult, error) {
	r := reader{rest: b, what: "a PublishResult"}
	r.start(0)
	p := PublishResult{ID: r.text(), Topic: r.text(), MessageID: r.text(), Latency: time.Duration(r.varint())}
	return p, r.end()
}

// The bits of a FailedMessage.
const (
	isPermanent = 1 << iota
	isUnknown
)

func encodeFailedMessage(f FailedMessage) ([]byte, error) {
	bits := uint64(0)
	if f.Permanent {
		bits |= isPermanent
	}
	if f.Unknown {
		bits |= isUnknown
	}
	b := make([]byte, 0, 64+len(f.Reason)+len(f.Message.Data))
	b = binary.AppendUvarint(append(b, coderVersion), bits)
	b = binary.AppendVarint(appendText(b, f.Reason), int64(f.Attempts))
	return appendMessage(b, f.Message)
}

func decodeFailedMessage(b []byte) (FailedMessage, error) {
	r := reader{rest: b, what: "a FailedMessage"}
	bits := r.start(isPermanent | isUnknown)
	f := FailedMessage{Permanent: bits&isPermanent != 0, Unknown: bits&isUnknown != 0}
	f.Reason, f.Attempts = r.text(), int(r.varint())
	f.Message = r.message()
	return f, r.end()
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

// A reader takes an encoding apart. Its first error stays; after it every read
// is zero, so that only the end has to look.
type reader struct {
	rest []byte
	what string
	err  error
}

var errShort = errors.New("it ends too early")

func (r *reader) fail(why string) { r.failWith(errors.New(why)) }

func (r *reader) failWith(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("decoding %s: %w", r.what, err)
	}
	r.rest = nil
}

// start reads the version and the bits of the fields.
func (r *reader) start(known uint64) uint64 {
	if len(r.rest) == 0 {
		r.failWith(errShort)
		return 0
	}
	version := r.rest[0]
	r.rest = r.rest[1:]
	if version != coderVersion {
		r.failWith(fmt.Errorf("its encoding has version %d, this program knows up to %d", version, coderVersion))
		return 0
	}
	bits := r.uvarint()
	if bits&^known != 0 {
		r.fail("it has fields this program does not know")
		return 0
	}
	return bits
}

// end returns the first error, which may be that something is left.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail(fmt.Sprintf("%d bytes are left", len(r.rest)))
	}
	return r.err
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failWith(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.failWith(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// take returns the next n bytes; they stay those of the encoding.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failWith(errShort)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

// bytes returns bytes that share the encoding's memory, which Beam allocates
// for each element. None is nil.
func (r *reader) bytes() []byte {
	if b := r.take(r.uvarint()); len(b) > 0 {
		return b
	}
	return nil
}

func (r *reader) time() time.Time {
	sec, nsec := r.varint(), r.uvarint()
	if nsec >= 1e9 {
		r.fail("a time has too many nanoseconds")
	}
	if r.err != nil {
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

// count reads a number of things that take at least one byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.failWith(errShort)
		return 0
	}
	return int(n)
}

func (r *reader) attributes() map[string]string {
	n := r.count()
	m := make(map[string]string, min(n, 128))
	for range n {
		k := r.text()
		v := r.text()
		if r.err != nil {
			return nil
		}
		if _, twice := m[k]; twice {
			r.fail("an attribute comes twice")
			return nil
		}
		m[k] = v
	}
	return m
}
