package pubsubio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hamba/avro/v2"
)

// parseAvro reads the definition of an Avro record.
func parseAvro(definition string) (*avro.RecordSchema, error) {
	// A cache of its own: the library's holds every name it has ever seen, so
	// that two revisions of a schema would be one.
	s, err := avro.ParseWithCache(definition, "", &avro.SchemaCache{})
	if err != nil {
		return nil, fmt.Errorf("parsing Avro schema: %w", err)
	}
	rec, ok := deref(s).(*avro.RecordSchema)
	if !ok {
		return nil, fmt.Errorf("is an Avro schema of type %s; only a record has fields", s.Type())
	}
	return rec, nil
}

// A userSchema is a schema of the user's: fields come from JSON in the body.
type userSchema struct {
	record *avro.RecordSchema
	form   form
}

// parseUserSchema reads an Avro record in JSON, or a column list.
func parseUserSchema(text string) (*userSchema, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("is empty")
	}
	u := &userSchema{form: plainForm}
	if text[0] != '{' && text[0] != '[' && text[0] != '"' {
		definition, err := ddlToAvro(text)
		if err != nil {
			return nil, err
		}
		text, u.form = definition, sparkForm
	}
	var err error
	u.record, err = parseAvro(text)
	return u, err
}

// checkUserSchema tells what is wrong with the text of a schema of the user's.
func checkUserSchema(text string) error {
	_, err := parseUserSchema(text)
	return err
}

// decode makes the schema's fields. One that is named as a documented column
// takes that column of the message; the others come from JSON in the body,
// which is not looked at when there are none.
func (u *userSchema) decode(m *Message) ([]Field, error) {
	var obj map[string]any
	fields := make([]Field, 0, len(u.record.Fields()))
	for _, f := range u.record.Fields() {
		if v, ok := column(m, f.Name()); ok {
			fields = append(fields, Field{f.Name(), v})
			continue
		}
		if obj == nil {
			var err error
			if obj, err = bodyObject(m); err != nil {
				return nil, err
			}
		}
		v, err := u.form.field(f, f, obj, 0)
		if err != nil {
			return nil, inside(f.Name(), err)
		}
		fields = append(fields, Field{f.Name(), v})
	}
	return fields, nil
}

func bodyObject(m *Message) (map[string]any, error) {
	if m.Attributes[schemaEncodingAttribute] == "BINARY" {
		return nil, &fieldError{"", errors.New("is in Avro's binary encoding, not JSON; leave out the option schema to decode it by its topic's")}
	}
	x, err := parseJSON(m.Data)
	if err != nil {
		return nil, err
	}
	obj, ok := x.(map[string]any)
	if !ok {
		return nil, &fieldError{"", notA("JSON object", x)}
	}
	return obj, nil
}

// parseJSON reads one JSON value, with numbers as they are written.
func parseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("is empty")
		} else {
			err = errors.New("is not JSON")
		}
		return nil, &fieldError{"", err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &fieldError{"", errors.New("has more than one JSON value")}
	}
	return x, nil
}
