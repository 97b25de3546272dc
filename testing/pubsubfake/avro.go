package pubsubfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/hamba/avro/v2"
)

// validAvroBinary wants data to begin with a datum in Avro's binary encoding. As
// in the official emulator, what follows it is not looked at.
func validAvroBinary(schema avro.Schema, data []byte) error {
	r := avro.NewReader(nil, 0).Reset(data)
	r.ReadNext(schema)
	switch {
	case errors.Is(r.Error, io.EOF):
		return errors.New("decoding AVRO: the message is too short")
	case r.Error != nil:
		return fmt.Errorf("decoding AVRO: %w", r.Error)
	}
	return nil
}

// validAvroJSON wants data to begin with a datum in Avro's JSON encoding, where
// a union is null or an object with the name of its branch. As in the official
// emulator, fields that the schema does not have are let pass, and what follows
// the datum is not looked at.
func validAvroJSON(schema avro.Schema, data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("decoding JSON: %w", err)
	}
	return conforms(schema, v, "message")
}

// conforms compares a decoded JSON value with a schema; at says where it is.
func conforms(schema avro.Schema, v any, at string) error {
	switch s := schema.(type) {
	case *avro.RefSchema:
		return conforms(s.Schema(), v, at)
	case *avro.NullSchema:
		if v != nil {
			return mismatch(at, "null", v)
		}
		return nil
	case *avro.PrimitiveSchema:
		return conformsPrimitive(s.Type(), v, at)
	case *avro.EnumSchema:
		if name, ok := v.(string); !ok || !slices.Contains(s.Symbols(), name) {
			return mismatch(at, "a symbol of "+s.FullName(), v)
		}
		return nil
	case *avro.FixedSchema:
		if text, ok := v.(string); !ok || !isLatin1(text) || utf8.RuneCountInString(text) != s.Size() {
			return mismatch(at, fmt.Sprintf("%d bytes", s.Size()), v)
		}
		return nil
	case *avro.ArraySchema:
		items, ok := v.([]any)
		if !ok {
			return mismatch(at, "array", v)
		}
		for i, item := range items {
			if err := conforms(s.Items(), item, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
		return nil
	case *avro.MapSchema:
		m, ok := v.(map[string]any)
		if !ok {
			return mismatch(at, "map", v)
		}
		for k, value := range m {
			if err := conforms(s.Values(), value, at+"."+k); err != nil {
				return err
			}
		}
		return nil
	case *avro.RecordSchema:
		return conformsRecord(s, v, at)
	case *avro.UnionSchema:
		return conformsUnion(s, v, at)
	}
	return fmt.Errorf("%s: unknown kind of schema %T", at, schema)
}

func conformsRecord(s *avro.RecordSchema, v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return mismatch(at, "record "+s.FullName(), v)
	}
	for _, f := range s.Fields() {
		value, ok := m[f.Name()]
		if !ok {
			return fmt.Errorf("%s: the field %q is missing", at, f.Name())
		}
		if err := conforms(f.Type(), value, at+"."+f.Name()); err != nil {
			return err
		}
	}
	return nil
}

func conformsUnion(s *avro.UnionSchema, v any, at string) error {
	if v == nil {
		if s.Contains(avro.Null) {
			return nil
		}
		return mismatch(at, "a branch of the union", v)
	}
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return mismatch(at, "an object with the name of a branch", v)
	}
	for name, value := range m {
		for _, branch := range s.Types() {
			if branchName(branch) == name {
				return conforms(branch, value, at+"."+name)
			}
		}
		return fmt.Errorf("%s: the union has no branch %q", at, name)
	}
	return nil
}

func branchName(s avro.Schema) string {
	if r, ok := s.(*avro.RefSchema); ok {
		return r.Schema().FullName()
	}
	if n, ok := s.(avro.NamedSchema); ok {
		return n.FullName()
	}
	return string(s.Type())
}

func conformsPrimitive(typ avro.Type, v any, at string) error {
	ok := false
	switch typ {
	case avro.Null:
		ok = v == nil
	case avro.Boolean:
		_, ok = v.(bool)
	case avro.String:
		_, ok = v.(string)
	case avro.Bytes:
		var text string
		text, ok = v.(string)
		ok = ok && isLatin1(text)
	case avro.Int:
		n, isInt := integer(v)
		ok = isInt && n >= math.MinInt32 && n <= math.MaxInt32
	case avro.Long:
		_, ok = integer(v)
	case avro.Float, avro.Double:
		var n json.Number
		if n, ok = v.(json.Number); ok {
			_, err := n.Float64()
			ok = err == nil
		}
	}
	if !ok {
		return mismatch(at, string(typ), v)
	}
	return nil
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// isLatin1 tells whether each character stands for one byte.
func isLatin1(s string) bool {
	for _, r := range s {
		if r > 0xff {
			return false
		}
	}
	return true
}

func mismatch(at, want string, v any) error {
	got := "null"
	switch v.(type) {
	case bool:
		got = "a boolean"
	case string:
		got = "a string"
	case json.Number:
		got = "a number"
	case []any:
		got = "an array"
	case map[string]any:
		got = "an object"
	}
	return fmt.Errorf("%s: want %s, got %s", at, want, got)
}
