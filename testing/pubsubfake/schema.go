package pubsubfake

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/hamba/avro/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// deletedSchema is what a topic names once its schema is gone.
const deletedSchema = "_deleted-schema_"

const (
	maxRevisions  = 20
	maxDefinition = 300 << 10
)

// The attributes that tell a reader how a message is encoded.
const (
	schemaNameAttribute     = "googclient_schemaname"
	schemaEncodingAttribute = "googclient_schemaencoding"
	schemaRevisionAttribute = "googclient_schemarevisionid"
)

// A schemaStore has the schemas with their revisions, oldest first.
type schemaStore struct {
	clock   Clock
	mu      sync.RWMutex
	schemas map[string][]*revision
	made    uint64
}

type revision struct {
	pb   *pubsubpb.Schema
	avro avro.Schema // nil for Protocol Buffers, which are stored only
}

// compile checks a definition.
func compile(pb *pubsubpb.Schema) (avro.Schema, error) {
	if n := len(pb.GetDefinition()); n == 0 || n > maxDefinition {
		return nil, invalid("The schema definition must have between 1 and %d bytes.", maxDefinition)
	}
	switch pb.GetType() {
	case pubsubpb.Schema_AVRO:
		// A cache of its own: a new revision defines the same name anew.
		s, err := avro.ParseBytesWithCache([]byte(pb.GetDefinition()), "", &avro.SchemaCache{})
		if err != nil {
			return nil, invalid("Invalid AVRO schema definition: %v.", err)
		}
		return s, nil
	case pubsubpb.Schema_PROTOCOL_BUFFER:
		return nil, nil
	}
	return nil, invalid("The schema type must be AVRO or PROTOCOL_BUFFER.")
}

// newRevision makes the next revision of a name. s.mu is held.
func (s *schemaStore) newRevision(name string, pb *pubsubpb.Schema, compiled avro.Schema) *revision {
	s.made++
	h := fnv.New32a()
	fmt.Fprintf(h, "%s#%d", name, s.made)
	return &revision{avro: compiled, pb: &pubsubpb.Schema{
		Name: name, Type: pb.GetType(), Definition: pb.GetDefinition(),
		RevisionId:         fmt.Sprintf("%08x", h.Sum32()),
		RevisionCreateTime: timestamppb.New(s.clock.Now()),
	}}
}

func (s *schemaStore) create(name string, pb *pubsubpb.Schema) (*pubsubpb.Schema, error) {
	if err := checkName(name, "schemas"); err != nil {
		return nil, err
	}
	compiled, err := compile(pb)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schemas[name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", shortName(name))
	}
	if s.schemas == nil {
		s.schemas = map[string][]*revision{}
	}
	r := s.newRevision(name, pb, compiled)
	s.schemas[name] = []*revision{r}
	return proto.CloneOf(r.pb), nil
}

// commit adds a revision, which must be readable with the one before it and the
// other way round: fields with defaults may come and go.
func (s *schemaStore) commit(name string, pb *pubsubpb.Schema) (*pubsubpb.Schema, error) {
	compiled, err := compile(pb)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	revs := s.schemas[name]
	switch {
	case revs == nil:
		return nil, schemaNotFound(name)
	case len(revs) >= maxRevisions:
		return nil, status.Errorf(codes.FailedPrecondition, "A schema has at most %d revisions.", maxRevisions)
	}
	last := revs[len(revs)-1]
	if last.pb.GetType() != pb.GetType() {
		return nil, invalid("The type of a schema cannot change.")
	}
	if err := compatible(last.avro, compiled); err != nil {
		return nil, err
	}
	r := s.newRevision(name, pb, compiled)
	s.schemas[name] = append(slices.Clone(revs), r)
	return proto.CloneOf(r.pb), nil
}

func compatible(before, after avro.Schema) error {
	if before == nil || after == nil {
		return nil
	}
	c := avro.NewSchemaCompatibility()
	if err := c.Compatible(after, before); err != nil {
		return invalid("The revision cannot read messages of the one before it: %v.", err)
	}
	if err := c.Compatible(before, after); err != nil {
		return invalid("The revision before it cannot read messages of this one: %v.", err)
	}
	return nil
}

// rollback makes a new revision that is equal to an old one.
func (s *schemaStore) rollback(name, id string) (*pubsubpb.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revs := s.schemas[name]
	i := indexOf(revs, id)
	if i < 0 {
		return nil, schemaNotFound(name + "@" + id)
	}
	r := s.newRevision(name, revs[i].pb, revs[i].avro)
	s.schemas[name] = append(slices.Clone(revs), r)
	return proto.CloneOf(r.pb), nil
}

func (s *schemaStore) deleteRevision(name, id string) (*pubsubpb.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revs := s.schemas[name]
	i := indexOf(revs, id)
	if i < 0 {
		return nil, schemaNotFound(name + "@" + id)
	}
	if len(revs) == 1 {
		return nil, invalid("The only revision of a schema cannot be deleted.")
	}
	revs = slices.Delete(slices.Clone(revs), i, i+1)
	s.schemas[name] = revs
	return proto.CloneOf(revs[len(revs)-1].pb), nil
}

func (s *schemaStore) remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schemas[name] == nil {
		return schemaNotFound(name)
	}
	delete(s.schemas, name)
	return nil
}

// revision returns one revision: that of "name@id", or the newest of "name".
func (s *schemaStore) revision(name string) (*revision, error) {
	base, id, _ := strings.Cut(name, "@")
	s.mu.RLock()
	defer s.mu.RUnlock()
	revs := s.schemas[base]
	i := len(revs) - 1
	if id != "" {
		i = indexOf(revs, id)
	}
	if i < 0 {
		return nil, schemaNotFound(name)
	}
	return revs[i], nil
}

func (s *schemaStore) revisions(name string) []*revision {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.schemas[name]
}

func indexOf(revs []*revision, id string) int {
	return slices.IndexFunc(revs, func(r *revision) bool { return r.pb.GetRevisionId() == id })
}

func schemaNotFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(name))
}

// checkSettings wants a schema that exists, with the revisions named.
func (s *schemaStore) checkSettings(set *pubsubpb.SchemaSettings) error {
	if set.GetEncoding() == pubsubpb.Encoding_ENCODING_UNSPECIFIED {
		return invalid("The encoding of the schema settings must be JSON or BINARY.")
	}
	_, err := s.allowed(set)
	return err
}

// allowed are the revisions a topic takes, newest first.
func (s *schemaStore) allowed(set *pubsubpb.SchemaSettings) ([]*revision, error) {
	revs := s.revisions(set.GetSchema())
	if revs == nil {
		return nil, schemaNotFound(set.GetSchema())
	}
	first, last := 0, len(revs)-1
	if id := set.GetFirstRevisionId(); id != "" {
		if first = indexOf(revs, id); first < 0 {
			return nil, schemaNotFound(set.GetSchema() + "@" + id)
		}
	}
	if id := set.GetLastRevisionId(); id != "" {
		if last = indexOf(revs, id); last < 0 {
			return nil, schemaNotFound(set.GetSchema() + "@" + id)
		}
	}
	if first > last {
		return nil, invalid("first_revision_id is newer than last_revision_id.")
	}
	revs = slices.Clone(revs[first : last+1])
	slices.Reverse(revs)
	return revs, nil
}

// apply checks messages against the schema of their topic and gives them the
// attributes that name the revision.
func (s *schemaStore) apply(set *pubsubpb.SchemaSettings, msgs []*pubsubpb.PubsubMessage) error {
	revs, err := s.allowed(set)
	if err != nil {
		return err
	}
	for i, m := range msgs {
		r, err := firstValid(revs, m.GetData(), set.GetEncoding())
		if err != nil {
			return invalid("Message %d failed schema validation: %v.", i, err)
		}
		if m.Attributes == nil {
			m.Attributes = make(map[string]string, 3)
		}
		m.Attributes[schemaNameAttribute] = r.pb.GetName()
		m.Attributes[schemaEncodingAttribute] = set.GetEncoding().String()
		m.Attributes[schemaRevisionAttribute] = r.pb.GetRevisionId()
	}
	return nil
}

// firstValid returns the newest revision that data conforms to.
func firstValid(revs []*revision, data []byte, enc pubsubpb.Encoding) (*revision, error) {
	var first error
	for _, r := range revs {
		err := r.validate(data, enc)
		if err == nil {
			return r, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (r *revision) validate(data []byte, enc pubsubpb.Encoding) error {
	switch {
	case r.avro == nil:
		return nil
	case enc == pubsubpb.Encoding_BINARY:
		return validAvroBinary(r.avro, data)
	}
	return validAvroJSON(r.avro, data)
}
