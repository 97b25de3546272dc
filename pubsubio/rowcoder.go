package pubsubio

import (
	"fmt"
	"io"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
)

// A program's own types may hold messages and values. Beam encodes such a type
// as a row, and does not look for the coders of coder.go within one; so it is
// told to take them as rows of one field, which holds their encoding.

func init() {
	provide("beam-brokers:pubsubio:message:v1", encodeMessage, decodeMessage)
	provide("beam-brokers:pubsubio:value:v1", encodeValue, decodeValue)
}

// An encoded is how a type looks to the row coder.
type encoded struct{ Encoding []byte }

func provide[T any](urn string, enc func(T) ([]byte, error), dec func([]byte) (T, error)) {
	// The name without a URN would be that of the type, Message, which is that of
	// other connectors' messages too.
	beam.RegisterSchemaProviderWithURN(reflect.TypeFor[T](), &rowProvider[T]{enc, dec}, urn)
}

type rowProvider[T any] struct {
	enc func(T) ([]byte, error)
	dec func([]byte) (T, error)
}

// FromLogicalType returns the row that stands for the type.
func (p *rowProvider[T]) FromLogicalType(reflect.Type) (reflect.Type, error) {
	return reflect.TypeFor[encoded](), nil
}

// BuildEncoder returns what writes such a row.
func (p *rowProvider[T]) BuildEncoder(reflect.Type) (func(any, io.Writer) error, error) {
	return func(v any, w io.Writer) error {
		b, err := p.enc(v.(T))
		if err != nil {
			return err
		}
		if err := coder.WriteSimpleRowHeader(1, w); err != nil {
			return err
		}
		return coder.EncodeBytes(b, w)
	}, nil
}

// BuildDecoder returns what reads such a row.
func (p *rowProvider[T]) BuildDecoder(reflect.Type) (func(io.Reader) (any, error), error) {
	return func(r io.Reader) (any, error) {
		if err := coder.ReadSimpleRowHeader(1, r); err != nil {
			return nil, err
		}
		b, err := coder.DecodeBytes(r)
		if err != nil {
			return nil, fmt.Errorf("reading an encoding: %w", err)
		}
		return p.dec(b)
	}, nil
}

// encodeValue and decodeValue are for a Value on its own.
func encodeValue(v Value) ([]byte, error) { return appendValue([]byte{coderVersion, 0}, v, 0) }

func decodeValue(b []byte) (Value, error) {
	r := reader{rest: b, what: "a Value"}
	r.start(0)
	v := r.value(0)
	return v, r.end()
}
