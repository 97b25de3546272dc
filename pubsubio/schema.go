package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hamba/avro/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The attributes by which the service says how a message of a topic with a
// schema is encoded.
const (
	schemaNameAttribute     = "googclient_schemaname"
	schemaEncodingAttribute = "googclient_schemaencoding"
	schemaRevisionAttribute = "googclient_schemarevisionid"
)

// A schemaSource knows the definitions of schemas by revision. The empty
// revision is the newest. It may block for a call to the service.
type schemaSource interface {
	Schema(ctx context.Context, name, revision string) (definition string, err error)
}

// errSchemaUnavailable tells that a schema could not be read, which is no fault
// of the message: the bundle has to be tried again, not the message given up.
var errSchemaUnavailable = errors.New("the schema of a message could not be read")

// A topicSchema decodes the messages of a topic to the fields that its schema
// had when the job started, whatever revision they were written with.
type topicSchema struct {
	source         schemaSource
	name, revision string
	read           *avro.RecordSchema

	mu      sync.Mutex
	written map[string]*avro.RecordSchema // name@revision
}

// newTopicSchema makes the decoder of a schema that is known at the start.
func newTopicSchema(source schemaSource, name, revision, definition string) (*topicSchema, error) {
	rec, err := parseAvro(definition)
	if err != nil {
		return nil, fmt.Errorf("reading schema %q: %w", name, err)
	}
	return &topicSchema{source: source, name: name, revision: revision, read: rec, written: map[string]*avro.RecordSchema{}}, nil
}

// decode returns the fields of a message. A message without the service's
// attributes was published before the topic had its schema: it is taken for
// JSON of the schema at the start.
func (t *topicSchema) decode(ctx context.Context, m *Message) ([]Field, error) {
	written, err := t.writer(ctx, m.Attributes[schemaNameAttribute], m.Attributes[schemaRevisionAttribute])
	if err != nil {
		return nil, err
	}
	var x any
	switch enc := m.Attributes[schemaEncodingAttribute]; enc {
	case "JSON", "":
		x, err = parseJSON(m.Data)
	case "BINARY":
		x, err = readAvro(written, m.Data)
	default:
		err = fmt.Errorf("has the encoding %q, which is not known", enc)
	}
	if err == nil {
		var v Value
		if v, err = avroForm.value(written, t.read, x, 0); err == nil {
			return v.Fields, nil
		}
	}
	var field *fieldError
	if !errors.As(err, &field) {
		err = &fieldError{"", err}
	}
	return nil, err
}

// writer returns the schema a message was written with.
func (t *topicSchema) writer(ctx context.Context, name, revision string) (*avro.RecordSchema, error) {
	if name == "" || name == t.name && revision == t.revision {
		return t.read, nil
	}
	key := name + "@" + revision
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.written[key]; s != nil {
		return s, nil
	}
	definition, err := t.source.Schema(ctx, name, revision)
	if err != nil {
		switch status.Code(err) {
		case codes.NotFound, codes.InvalidArgument:
			return nil, fmt.Errorf("schema %q: %w", key, err)
		}
		if errors.Is(err, errProtobufSchema) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errSchemaUnavailable, err)
	}
	s, err := parseAvro(definition)
	if err != nil {
		return nil, fmt.Errorf("schema %q: %w", key, err)
	}
	t.written[key] = s
	return s, nil
}
