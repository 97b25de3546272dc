package pubsubio

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hamba/avro/v2"
)

// hamba/avro parses schemas and knows the binary encoding. It does not know
// Avro's JSON encoding, and its binary reader makes maps without an order, fills
// no defaults there, and trusts the counts it reads. So values are decoded here,
// in two steps: the encoding into a tree as it was written, and the tree, by the
// schema it was written with, into values of the schema it is read with.

// A form is how the tree was written.
type form int

const (
	// avroForm is Avro's own JSON or binary encoding: a union names its branch,
	// bytes are text of code points up to 255.
	avroForm form = iota
	// plainForm is JSON as programs without Avro write it: a field may be
	// absent, a union is just its value, bytes are base64, times may be text.
	plainForm
	// sparkForm is plainForm where a number for a time is seconds.
	sparkForm
	// defaultForm is that of a default in a schema: a union is its first branch.
	defaultForm
)

func (f form) plain() bool { return f == plainForm || f == sparkForm }

// A branch is a value of a union, as the binary encoding has it.
type branch struct {
	index int
	value any
}

// A fieldError says which field of a message cannot be decoded, and why.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return "body: " + e.err.Error()
	}
	return fmt.Sprintf("field %q: %v", e.path, e.err)
}

func (e *fieldError) Unwrap() error { return e.err }

// within puts the error into the field or item it is in.
func inside(step string, err error) error {
	var e *fieldError
	if !errors.As(err, &e) {
		return &fieldError{step, err}
	}
	if strings.HasPrefix(e.path, "[") {
		return &fieldError{step + e.path, e.err}
	}
	return &fieldError{step + "." + e.path, e.err}
}

var errDeep = fmt.Errorf("is nested more than %d deep", maxDepth)

// value makes a value of the schema read from a tree of the schema written.
func (f form) value(written, read avro.Schema, x any, depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, errDeep
	}
	written, read = deref(written), deref(read)
	if u, ok := written.(*avro.UnionSchema); ok {
		return f.fromUnion(u, read, x, depth)
	}
	if u, ok := read.(*avro.UnionSchema); ok {
		if read = branchFor(written, u); read == nil {
			return Value{}, fmt.Errorf("was written as %s, which is not in the schema it is read with", typeName(written))
		}
	}
	switch w := written.(type) {
	case *avro.RecordSchema:
		if r, ok := read.(*avro.RecordSchema); ok {
			return f.record(w, r, x, depth)
		}
	case *avro.ArraySchema:
		if r, ok := read.(*avro.ArraySchema); ok {
			return f.array(w, r, x, depth)
		}
	case *avro.MapSchema:
		if r, ok := read.(*avro.MapSchema); ok {
			return f.mapping(w, r, x, depth)
		}
	case *avro.EnumSchema:
		if r, ok := read.(*avro.EnumSchema); ok {
			return enum(w, r, x)
		}
	default:
		if matches(written, read) > 0 {
			return f.scalar(written, read, x)
		}
	}
	return Value{}, fmt.Errorf("was written as %s and cannot be read as %s", typeName(written), typeName(read))
}

// fromUnion finds the branch that was written.
func (f form) fromUnion(u *avro.UnionSchema, read avro.Schema, x any, depth int) (Value, error) {
	if b, ok := x.(branch); ok {
		return f.value(u.Types()[b.index], read, b.value, depth+1)
	}
	if f == defaultForm {
		return f.value(u.Types()[0], read, x, depth+1)
	}
	if x == nil {
		if i := slices.IndexFunc(u.Types(), isNull); i >= 0 {
			return f.value(u.Types()[i], read, nil, depth+1)
		}
		return Value{}, errors.New("is null, which the schema does not allow")
	}
	named := fmt.Errorf("is %s, not a union, which is written {%q: ...}", kindOf(x), typeName(lastBranch(u)))
	if obj, ok := x.(map[string]any); ok && len(obj) == 1 {
		for name, inner := range obj {
			for _, t := range u.Types() {
				if typeName(t) != name {
					continue
				}
				v, err := f.value(t, read, inner, depth+1)
				if err == nil || !f.plain() {
					return v, err
				}
			}
			named = fmt.Errorf("is a union of the unknown type %q", name)
		}
	}
	if !f.plain() {
		return Value{}, named
	}
	var first error
	for _, t := range u.Types() {
		if isNull(t) {
			continue
		}
		v, err := f.value(t, read, x, depth+1)
		if err == nil {
			return v, nil
		}
		first = cmpErr(first, err)
	}
	return Value{}, cmpErr(first, errors.New("is not null, the only thing the schema allows"))
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func lastBranch(u *avro.UnionSchema) avro.Schema { return u.Types()[len(u.Types())-1] }

func isNull(s avro.Schema) bool { return s.Type() == avro.Null }

// record reads the fields of the schema it is read with, in its order. A field
// that the writer did not know has its default.
func (f form) record(w, r *avro.RecordSchema, x any, depth int) (Value, error) {
	obj, ok := x.(map[string]any)
	if !ok {
		return Value{}, notA("record", x)
	}
	fields := make([]Field, 0, len(r.Fields()))
	for _, rf := range r.Fields() {
		v, err := f.field(writerField(w, rf), rf, obj, depth)
		if err != nil {
			return Value{}, inside(rf.Name(), err)
		}
		fields = append(fields, Field{rf.Name(), v})
	}
	return Value{Kind: KindRecord, Fields: fields}, nil
}

func (f form) field(wf, rf *avro.Field, obj map[string]any, depth int) (Value, error) {
	if wf == nil {
		if !rf.HasDefault() {
			return Value{}, errors.New("is not in the schema the message was written with, and has no default")
		}
		return defaultForm.value(rf.Type(), rf.Type(), rf.Default(), depth+1)
	}
	x, has := obj[wf.Name()]
	switch {
	case has:
		return f.value(wf.Type(), rf.Type(), x, depth+1)
	case wf.HasDefault():
		return defaultForm.value(wf.Type(), rf.Type(), wf.Default(), depth+1)
	case f.plain() && nullable(wf.Type()):
		return Value{}, nil
	}
	return Value{}, errors.New("is missing")
}

func nullable(s avro.Schema) bool {
	u, ok := deref(s).(*avro.UnionSchema)
	return ok && slices.ContainsFunc(u.Types(), isNull) || isNull(deref(s))
}

// writerField finds the field of the writer that a field of the reader is, by
// its name or one of its aliases.
func writerField(w *avro.RecordSchema, rf *avro.Field) *avro.Field {
	for _, name := range append([]string{rf.Name()}, rf.Aliases()...) {
		for _, wf := range w.Fields() {
			if wf.Name() == name {
				return wf
			}
		}
	}
	return nil
}

func (f form) array(w, r *avro.ArraySchema, x any, depth int) (Value, error) {
	list, ok := x.([]any)
	if !ok {
		return Value{}, notA("array", x)
	}
	v := Value{Kind: KindArray}
	for i, item := range list {
		iv, err := f.value(w.Items(), r.Items(), item, depth+1)
		if err != nil {
			return Value{}, inside(fmt.Sprintf("[%d]", i), err)
		}
		v.Items = append(v.Items, iv)
	}
	return v, nil
}

// mapping makes a map, sorted by its keys: equal maps are equal values.
func (f form) mapping(w, r *avro.MapSchema, x any, depth int) (Value, error) {
	obj, ok := x.(map[string]any)
	if !ok {
		return Value{}, notA("map", x)
	}
	v := Value{Kind: KindMap}
	for k, item := range obj {
		iv, err := f.value(w.Values(), r.Values(), item, depth+1)
		if err != nil {
			return Value{}, inside(k, err)
		}
		v.Fields = append(v.Fields, Field{k, iv})
	}
	slices.SortFunc(v.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return v, nil
}

// enum reads a symbol; one the reader does not know is its default.
func enum(w, r *avro.EnumSchema, x any) (Value, error) {
	s, ok := x.(string)
	switch {
	case !ok:
		return Value{}, notA("symbol of "+w.FullName(), x)
	case !slices.Contains(w.Symbols(), s):
		return Value{}, fmt.Errorf("is not a symbol of %s", w.FullName())
	case slices.Contains(r.Symbols(), s):
	case r.HasDefault():
		s = r.Default()
	default:
		return Value{}, fmt.Errorf("is a symbol that %s, as it is read, does not have", r.FullName())
	}
	return Value{Kind: KindString, String: s}, nil
}

// deref follows a reference to a schema by name.
func deref(s avro.Schema) avro.Schema {
	if ref, ok := s.(*avro.RefSchema); ok {
		return ref.Schema()
	}
	return s
}

// typeName is the name of a type as Avro's JSON encoding of a union has it.
func typeName(s avro.Schema) string {
	s = deref(s)
	if n, ok := s.(avro.NamedSchema); ok {
		return n.FullName()
	}
	return string(s.Type())
}

// branchFor chooses the branch of a union that a type is read as: the same type,
// else the first it can be promoted to. Nil is none.
func branchFor(written avro.Schema, u *avro.UnionSchema) avro.Schema {
	var best avro.Schema
	score := 0
	for _, t := range u.Types() {
		if s := matches(written, deref(t)); s > score {
			best, score = deref(t), s
		}
	}
	return best
}

// matches tells how well a type is read as another: 0 not at all, more is
// better.
func matches(w, r avro.Schema) int {
	if w.Type() == r.Type() {
		wn, named := w.(avro.NamedSchema)
		if !named {
			return 3
		}
		rn := r.(avro.NamedSchema)
		switch {
		case wn.FullName() == rn.FullName():
			return 3
		case wn.Name() == rn.Name() || slices.Contains(rn.Aliases(), wn.FullName()):
			return 2
		case w.Type() == avro.Fixed:
			return 1
		}
		return 0
	}
	switch w.Type() {
	case avro.Int:
		return promoted(r, avro.Long, avro.Float, avro.Double)
	case avro.Long:
		return promoted(r, avro.Float, avro.Double)
	case avro.Float:
		return promoted(r, avro.Double)
	case avro.String:
		return promoted(r, avro.Bytes)
	case avro.Bytes:
		return promoted(r, avro.String)
	}
	return 0
}

func promoted(r avro.Schema, to ...avro.Type) int {
	if slices.Contains(to, r.Type()) {
		return 1
	}
	return 0
}

// notA says what a value is in place of what it should be. It does not show the
// value, which may be anything.
func notA(what string, x any) error {
	return fmt.Errorf("is %s, not %s", kindOf(x), article(what))
}

func article(what string) string {
	if strings.ContainsRune("aeiou", rune(what[0])) {
		return "an " + what
	}
	return "a " + what
}

func kindOf(x any) string {
	switch x.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number, int, int64, float32, float64:
		return "a number"
	case string:
		return "a string"
	case []byte:
		return "bytes"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case branch:
		return "a union"
	}
	return fmt.Sprintf("%T", x)
}
