package pubsubio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/hamba/avro/v2"
)

// readAvro takes a body in Avro's binary encoding apart into a tree, as form
// reads it. Counts are held against the bytes that are left, so that a damaged
// body cannot ask for memory.
func readAvro(s avro.Schema, body []byte) (any, error) {
	r := avroReader{reader{rest: body, what: "Avro"}}
	x, err := r.value(s, 0)
	if err != nil {
		return nil, err
	}
	if n := len(r.rest); n > 0 {
		return nil, fmt.Errorf("has %d bytes more than its schema", n)
	}
	return x, nil
}

type avroReader struct{ reader }

// done returns what was read, or the error of reading it.
func done[T any](r *avroReader, v T) (any, error) {
	if r.err != nil {
		return nil, errors.New("ends too early")
	}
	return v, nil
}

func (r *avroReader) value(s avro.Schema, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch s := deref(s).(type) {
	case *avro.NullSchema:
		return nil, nil
	case *avro.RecordSchema:
		return r.record(s, depth)
	case *avro.ArraySchema:
		return r.array(s, depth)
	case *avro.MapSchema:
		return r.mapping(s, depth)
	case *avro.UnionSchema:
		return r.union(s, depth)
	case *avro.EnumSchema:
		n := r.varint()
		if r.err != nil {
			return done(r, "")
		}
		if n < 0 || n >= int64(len(s.Symbols())) {
			return nil, fmt.Errorf("is not a symbol of %s", s.FullName())
		}
		return s.Symbols()[n], nil
	case *avro.FixedSchema:
		return done(r, r.take(uint64(s.Size())))
	case *avro.PrimitiveSchema:
		return r.primitive(s.Type())
	}
	return nil, fmt.Errorf("has the type %s, which is not known", s.Type())
}

func (r *avroReader) primitive(t avro.Type) (any, error) {
	switch t {
	case avro.Boolean:
		b := r.take(1)
		if len(b) == 1 && b[0] > 1 {
			return nil, errors.New("is not a boolean")
		}
		return done(r, len(b) == 1 && b[0] == 1)
	case avro.Int, avro.Long:
		return done(r, r.varint())
	case avro.Float:
		b := r.take(4)
		if len(b) < 4 {
			return done(r, 0)
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case avro.Double:
		b := r.take(8)
		if len(b) < 8 {
			return done(r, 0)
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
	case avro.Bytes:
		b := r.sized()
		return done(r, b)
	case avro.String:
		b := r.sized()
		if !utf8.Valid(b) {
			return nil, errors.New("is not UTF-8 text")
		}
		return done(r, string(b))
	}
	return nil, fmt.Errorf("has the type %s, which is not known", t)
}

// sized reads bytes behind their length.
func (r *avroReader) sized() []byte {
	n := r.varint()
	if n < 0 {
		r.failWith(errShort)
		return nil
	}
	return r.take(uint64(n))
}

func (r *avroReader) record(s *avro.RecordSchema, depth int) (any, error) {
	obj := make(map[string]any, len(s.Fields()))
	for _, f := range s.Fields() {
		x, err := r.value(f.Type(), depth+1)
		if err != nil {
			return nil, inside(f.Name(), err)
		}
		obj[f.Name()] = x
	}
	return obj, nil
}

// block reads the count of a block of items; 0 ends them. A negative count has
// the size of the block behind it.
func (r *avroReader) block() (int, error) {
	n := r.varint()
	if n < 0 {
		r.varint()
		n = -n
	}
	if r.err != nil {
		return 0, errors.New("ends too early")
	}
	if n < 0 || n > int64(len(r.rest)) {
		return 0, fmt.Errorf("has more items than the %d bytes left can hold", len(r.rest))
	}
	return int(n), nil
}

func (r *avroReader) array(s *avro.ArraySchema, depth int) (any, error) {
	list := []any{}
	for {
		n, err := r.block()
		if n == 0 || err != nil {
			return list, err
		}
		for range n {
			x, err := r.value(s.Items(), depth+1)
			if err != nil {
				return nil, inside(fmt.Sprintf("[%d]", len(list)), err)
			}
			list = append(list, x)
		}
	}
}

func (r *avroReader) mapping(s *avro.MapSchema, depth int) (any, error) {
	obj := map[string]any{}
	for {
		n, err := r.block()
		if n == 0 || err != nil {
			return obj, err
		}
		for range n {
			key, err := r.primitive(avro.String)
			if err != nil {
				return nil, err
			}
			x, err := r.value(s.Values(), depth+1)
			if err != nil {
				return nil, inside(key.(string), err)
			}
			obj[key.(string)] = x
		}
	}
}

func (r *avroReader) union(s *avro.UnionSchema, depth int) (any, error) {
	n := r.varint()
	if r.err == nil && (n < 0 || n >= int64(len(s.Types()))) {
		return nil, fmt.Errorf("is a union of the unknown type %d", n)
	}
	if r.err != nil {
		return nil, errors.New("ends too early")
	}
	x, err := r.value(s.Types()[n], depth+1)
	return branch{int(n), x}, err
}
