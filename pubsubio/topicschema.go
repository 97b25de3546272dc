package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"sync"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// withSchema adds the schema of the subscription's topic.
func withSchema(ctx context.Context, conn Connection, sub subscription) (subscription, error) {
	opts, err := conn.clientOptions()
	if err != nil {
		return sub, err
	}
	topics, err := vkit.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return sub, fmt.Errorf("connecting to %s: %w", conn.target(), err)
	}
	defer topics.Close()
	topic, err := topics.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: sub.Topic})
	if err != nil {
		return sub, missingRight(err, "pubsub.topics.get", fmt.Sprintf("looking up topic %q for its schema", sub.Topic))
	}
	set := topic.GetSchemaSettings()
	if set.GetSchema() == "" || set.GetSchema() == deletedSchema {
		return sub, fmt.Errorf("topic %q has no schema: schemaMode dynamic and mixed need one, or the option schema", sub.Topic)
	}
	sub.SchemaName, sub.SchemaRevision = set.GetSchema(), set.GetLastRevisionId()
	src := &schemaService{conn: conn}
	defer src.close()
	sub.Schema, err = src.Schema(ctx, sub.SchemaName, sub.SchemaRevision)
	return sub, err
}

// deletedSchema is what the service calls a schema that is gone.
const deletedSchema = "_deleted-schema_"

func missingRight(err error, right, doing string) error {
	if status.Code(err) == codes.PermissionDenied {
		return fmt.Errorf("%s: the right %s is missing: %w", doing, right, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// errProtobufSchema refuses schemas of the other kind.
var errProtobufSchema = errors.New("it is a Protocol Buffers schema; only Avro schemas can be decoded. Read with schemaMode basic and decode the body yourself")

// A schemaService fetches schemas by revision and keeps them.
type schemaService struct {
	conn Connection

	mu     sync.Mutex
	client *vkit.SchemaClient
	known  map[string]string
}

// Schema is the definition of a schema's revision, of the newest where revision
// is empty.
func (s *schemaService) Schema(ctx context.Context, name, revision string) (string, error) {
	if revision != "" {
		name += "@" + revision
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if def, ok := s.known[name]; ok {
		return def, nil
	}
	if s.client == nil {
		opts, err := s.conn.clientOptions()
		if err != nil {
			return "", err
		}
		if s.client, err = vkit.NewSchemaClient(context.WithoutCancel(ctx), opts...); err != nil {
			return "", fmt.Errorf("connecting to %s: %w", s.conn.target(), err)
		}
		s.known = map[string]string{}
	}
	got, err := s.client.GetSchema(ctx, &pubsubpb.GetSchemaRequest{Name: name, View: pubsubpb.SchemaView_FULL})
	if err != nil {
		return "", missingRight(err, "pubsub.schemas.get", fmt.Sprintf("reading schema %q", name))
	}
	if got.GetType() != pubsubpb.Schema_AVRO {
		return "", fmt.Errorf("reading schema %q: %w", name, errProtobufSchema)
	}
	s.known[name] = got.GetDefinition()
	return got.GetDefinition(), nil
}

func (s *schemaService) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close()
		s.client = nil
	}
}
