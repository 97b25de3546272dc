package pubsubfake

import (
	"context"
	"slices"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// viewed is a schema as a request wants to see it.
func viewed(pb *pubsubpb.Schema, view, otherwise pubsubpb.SchemaView) *pubsubpb.Schema {
	pb = proto.CloneOf(pb)
	if view == pubsubpb.SchemaView_SCHEMA_VIEW_UNSPECIFIED {
		view = otherwise
	}
	if view == pubsubpb.SchemaView_BASIC {
		pb.Definition = ""
	}
	return pb
}

// CreateSchema implements the RPC.
func (s *Server) CreateSchema(_ context.Context, req *pubsubpb.CreateSchemaRequest) (*pubsubpb.Schema, error) {
	return s.schemas.create(req.GetParent()+"/schemas/"+req.GetSchemaId(), req.GetSchema())
}

// GetSchema implements the RPC; the name may end in @revision.
func (s *Server) GetSchema(_ context.Context, req *pubsubpb.GetSchemaRequest) (*pubsubpb.Schema, error) {
	r, err := s.schemas.revision(req.GetName())
	if err != nil {
		return nil, err
	}
	return viewed(r.pb, req.GetView(), pubsubpb.SchemaView_FULL), nil
}

// ListSchemas implements the RPC.
func (s *Server) ListSchemas(_ context.Context, req *pubsubpb.ListSchemasRequest) (*pubsubpb.ListSchemasResponse, error) {
	s.schemas.mu.RLock()
	names := namesIn(s.schemas.schemas, req.GetParent())
	s.schemas.mu.RUnlock()
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	resp := &pubsubpb.ListSchemasResponse{NextPageToken: next}
	for _, name := range names {
		if r, err := s.schemas.revision(name); err == nil {
			resp.Schemas = append(resp.Schemas, viewed(r.pb, req.GetView(), pubsubpb.SchemaView_BASIC))
		}
	}
	return resp, nil
}

// ListSchemaRevisions implements the RPC: newest first, all on one page.
func (s *Server) ListSchemaRevisions(_ context.Context, req *pubsubpb.ListSchemaRevisionsRequest) (*pubsubpb.ListSchemaRevisionsResponse, error) {
	revs := slices.Clone(s.schemas.revisions(req.GetName()))
	if len(revs) == 0 {
		return nil, schemaNotFound(req.GetName())
	}
	slices.Reverse(revs)
	resp := &pubsubpb.ListSchemaRevisionsResponse{}
	for _, r := range revs {
		resp.Schemas = append(resp.Schemas, viewed(r.pb, req.GetView(), pubsubpb.SchemaView_BASIC))
	}
	return resp, nil
}

// CommitSchema implements the RPC.
func (s *Server) CommitSchema(_ context.Context, req *pubsubpb.CommitSchemaRequest) (*pubsubpb.Schema, error) {
	return s.schemas.commit(req.GetName(), req.GetSchema())
}

// RollbackSchema implements the RPC.
func (s *Server) RollbackSchema(_ context.Context, req *pubsubpb.RollbackSchemaRequest) (*pubsubpb.Schema, error) {
	return s.schemas.rollback(req.GetName(), req.GetRevisionId())
}

// DeleteSchemaRevision implements the RPC; the name ends in @revision.
func (s *Server) DeleteSchemaRevision(_ context.Context, req *pubsubpb.DeleteSchemaRevisionRequest) (*pubsubpb.Schema, error) {
	name, id, ok := strings.Cut(req.GetName(), "@")
	if !ok {
		id = req.GetRevisionId() //nolint:staticcheck // deprecated, still served
	}
	return s.schemas.deleteRevision(name, id)
}

// DeleteSchema implements the RPC. Topics with the schema keep their settings,
// naming a deleted schema, and refuse messages.
func (s *Server) DeleteSchema(_ context.Context, req *pubsubpb.DeleteSchemaRequest) (*emptypb.Empty, error) {
	if err := s.schemas.remove(req.GetName()); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.topics {
		t.mu.Lock()
		if set := t.pb.GetSchemaSettings(); set.GetSchema() == req.GetName() {
			// A publish under way may hold the old settings: replace them.
			t.pb.SchemaSettings = &pubsubpb.SchemaSettings{Schema: deletedSchema, Encoding: set.GetEncoding()}
		}
		t.mu.Unlock()
	}
	return &emptypb.Empty{}, nil
}

// ValidateSchema implements the RPC.
func (s *Server) ValidateSchema(_ context.Context, req *pubsubpb.ValidateSchemaRequest) (*pubsubpb.ValidateSchemaResponse, error) {
	if _, err := compile(req.GetSchema()); err != nil {
		return nil, err
	}
	return &pubsubpb.ValidateSchemaResponse{}, nil
}

// ValidateMessage implements the RPC.
func (s *Server) ValidateMessage(_ context.Context, req *pubsubpb.ValidateMessageRequest) (*pubsubpb.ValidateMessageResponse, error) {
	var r *revision
	switch spec := req.GetSchemaSpec().(type) {
	case *pubsubpb.ValidateMessageRequest_Name:
		var err error
		if r, err = s.schemas.revision(spec.Name); err != nil {
			return nil, err
		}
	case *pubsubpb.ValidateMessageRequest_Schema:
		compiled, err := compile(spec.Schema)
		if err != nil {
			return nil, err
		}
		r = &revision{pb: spec.Schema, avro: compiled}
	default:
		return nil, invalid("A schema or the name of one is needed.")
	}
	if err := r.validate(req.GetMessage(), req.GetEncoding()); err != nil {
		return nil, invalid("Invalid data in message: %v.", err)
	}
	return &pubsubpb.ValidateMessageResponse{}, nil
}
