package pubsubio

import (
	"encoding/binary"
	"fmt"
	"math"
)

// appendFields writes fields in their order: name and value of each.
func appendFields(b []byte, fields []Field, depth int) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, f := range fields {
		var err error
		if b, err = appendValue(appendText(b, f.Name), f.Value, depth+1); err != nil {
			return nil, fmt.Errorf("encoding field %q: %w", f.Name, err)
		}
	}
	return b, nil
}

// appendValue writes the kind of a value, and what the kind holds.
func appendValue(b []byte, v Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("a value is nested more than %d deep", maxDepth)
	}
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case KindNull:
	case KindBool:
		if v.Bool {
			return append(b, 1), nil
		}
		b = append(b, 0)
	case KindInt, KindTime:
		b = binary.AppendVarint(b, v.Int)
	case KindFloat:
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float))
	case KindString, KindDecimal:
		b = appendText(b, v.String)
	case KindBytes:
		b = appendText(b, v.Bytes)
	case KindTimestamp, KindDate:
		b = appendTime(b, v.Time)
	case KindArray:
		b = binary.AppendUvarint(b, uint64(len(v.Items)))
		for i, item := range v.Items {
			var err error
			if b, err = appendValue(b, item, depth+1); err != nil {
				return nil, fmt.Errorf("encoding item %d: %w", i, err)
			}
		}
	case KindMap, KindRecord:
		return appendFields(b, v.Fields, depth)
	default:
		return nil, fmt.Errorf("a value has the unknown kind %d", v.Kind)
	}
	return b, nil
}

func (r *reader) fields(depth int) []Field {
	n := r.count()
	if n == 0 {
		return nil
	}
	fields := make([]Field, 0, min(n, 64))
	for range n {
		f := Field{Name: r.text()}
		f.Value = r.value(depth + 1)
		if r.err != nil {
			return nil
		}
		fields = append(fields, f)
	}
	return fields
}

func (r *reader) value(depth int) Value {
	kind := r.take(1)
	switch {
	case len(kind) == 0:
		return Value{}
	case depth > maxDepth:
		r.fail(fmt.Sprintf("a value is nested more than %d deep", maxDepth))
		return Value{}
	}
	v := Value{Kind: Kind(kind[0])}
	switch v.Kind {
	case KindNull:
	case KindBool:
		if b := r.take(1); len(b) == 1 {
			v.Bool = b[0] != 0
		}
	case KindInt, KindTime:
		v.Int = r.varint()
	case KindFloat:
		if b := r.take(8); len(b) == 8 {
			v.Float = math.Float64frombits(binary.BigEndian.Uint64(b))
		}
	case KindString, KindDecimal:
		v.String = r.text()
	case KindBytes:
		v.Bytes = r.bytes()
	case KindTimestamp, KindDate:
		v.Time = r.time()
	case KindArray:
		v.Items = r.items(depth)
	case KindMap, KindRecord:
		v.Fields = r.fields(depth)
	default:
		r.fail(fmt.Sprintf("a value has the unknown kind %d", v.Kind))
	}
	return v
}

func (r *reader) items(depth int) []Value {
	n := r.count()
	if n == 0 {
		return nil
	}
	items := make([]Value, 0, min(n, 64))
	for range n {
		v := r.value(depth + 1)
		if r.err != nil {
			return nil
		}
		items = append(items, v)
	}
	return items
}
