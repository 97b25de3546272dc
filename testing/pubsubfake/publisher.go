package pubsubfake

import (
	"context"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// deletedTopic is what a subscription names once its topic is gone.
const deletedTopic = "_deleted-topic_"

func (s *Server) topic(name string) (*topic, error) {
	s.mu.RLock()
	t := s.topics[name]
	s.mu.RUnlock()
	if t == nil {
		if err := checkName(name, "topics"); err != nil {
			return nil, err
		}
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(name))
	}
	return t, nil
}

// CreateTopic implements the RPC.
func (s *Server) CreateTopic(_ context.Context, req *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	if err := checkName(req.GetName(), "topics"); err != nil {
		return nil, err
	}
	if err := s.checkTopic(req); err != nil {
		return nil, err
	}
	pb := proto.CloneOf(req)
	pb.State = pubsubpb.Topic_ACTIVE
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[pb.Name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", shortName(pb.Name))
	}
	s.topics[pb.Name] = &topic{srv: s, name: pb.Name, pb: pb}
	return proto.CloneOf(pb), nil
}

func (s *Server) checkTopic(pb *pubsubpb.Topic) error {
	if d := pb.GetMessageRetentionDuration(); d != nil {
		if err := checkRetention(d.AsDuration()); err != nil {
			return err
		}
	}
	if set := pb.GetSchemaSettings(); set != nil {
		return s.schemas.checkSettings(set)
	}
	return nil
}

// GetTopic implements the RPC.
func (s *Server) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	t, err := s.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return proto.CloneOf(t.pb), nil
}

// UpdateTopic implements the RPC.
func (s *Server) UpdateTopic(_ context.Context, req *pubsubpb.UpdateTopicRequest) (*pubsubpb.Topic, error) {
	t, err := s.topic(req.GetTopic().GetName())
	if err != nil {
		return nil, err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "The update_mask in the UpdateTopicRequest must be set.")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pb, in := proto.CloneOf(t.pb), req.GetTopic()
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "labels":
			pb.Labels = in.GetLabels()
		case "message_storage_policy":
			pb.MessageStoragePolicy = in.GetMessageStoragePolicy()
		case "message_retention_duration":
			pb.MessageRetentionDuration = in.GetMessageRetentionDuration()
		case "schema_settings":
			pb.SchemaSettings = in.GetSchemaSettings()
		case "schema_settings.first_revision_id", "schema_settings.last_revision_id", "schema_settings.encoding":
			if pb.SchemaSettings == nil {
				return nil, status.Error(codes.InvalidArgument, "The topic has no schema settings.")
			}
			updateSchemaSettings(pb.SchemaSettings, in.GetSchemaSettings(), path)
		default:
			return nil, status.Errorf(codes.InvalidArgument, "Invalid update_mask path %q.", path)
		}
	}
	if err := s.checkTopic(pb); err != nil {
		return nil, err
	}
	t.pb = proto.CloneOf(pb)
	return pb, nil
}

func updateSchemaSettings(dst, src *pubsubpb.SchemaSettings, path string) {
	switch path {
	case "schema_settings.first_revision_id":
		dst.FirstRevisionId = src.GetFirstRevisionId()
	case "schema_settings.last_revision_id":
		dst.LastRevisionId = src.GetLastRevisionId()
	case "schema_settings.encoding":
		dst.Encoding = src.GetEncoding()
	}
}

// ListTopics implements the RPC.
func (s *Server) ListTopics(_ context.Context, req *pubsubpb.ListTopicsRequest) (*pubsubpb.ListTopicsResponse, error) {
	s.mu.RLock()
	names := namesIn(s.topics, req.GetProject())
	s.mu.RUnlock()
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	resp := &pubsubpb.ListTopicsResponse{NextPageToken: next}
	for _, name := range names {
		t, err := s.topic(name)
		if err != nil {
			continue // deleted since
		}
		t.mu.Lock()
		resp.Topics = append(resp.Topics, proto.CloneOf(t.pb))
		t.mu.Unlock()
	}
	return resp, nil
}

// ListTopicSubscriptions implements the RPC.
func (s *Server) ListTopicSubscriptions(_ context.Context, req *pubsubpb.ListTopicSubscriptionsRequest) (*pubsubpb.ListTopicSubscriptionsResponse, error) {
	t, err := s.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	var names []string
	for _, sub := range t.subs {
		names = append(names, sub.name)
	}
	t.mu.Unlock()
	slices.Sort(names)
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	return &pubsubpb.ListTopicSubscriptionsResponse{Subscriptions: names, NextPageToken: next}, nil
}

// DeleteTopic implements the RPC. Subscriptions stay and keep their backlog.
func (s *Server) DeleteTopic(_ context.Context, req *pubsubpb.DeleteTopicRequest) (*emptypb.Empty, error) {
	t, err := s.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.topics, t.name)
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deleted = true
	for _, sub := range t.subs {
		sub.mu.Lock()
		sub.pb.Topic = deletedTopic
		sub.mu.Unlock()
	}
	return &emptypb.Empty{}, nil
}

// DetachSubscription implements the RPC: the backlog is dropped and every read
// fails from now on.
func (s *Server) DetachSubscription(_ context.Context, req *pubsubpb.DetachSubscriptionRequest) (*pubsubpb.DetachSubscriptionResponse, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	sub.topic.detach(sub)
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.pb.Detached = true
	sub.dropAll()
	sub.endStreams(status.New(codes.FailedPrecondition, "Subscription is detached."))
	return &pubsubpb.DetachSubscriptionResponse{}, nil
}

// Publish implements the RPC.
func (s *Server) Publish(_ context.Context, req *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	t, err := s.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	bytes, err := checkPublish(req)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	settings := t.pb.GetSchemaSettings()
	t.mu.Unlock()
	if settings != nil {
		if err := s.schemas.apply(settings, req.GetMessages()); err != nil {
			return nil, err
		}
	}
	now := s.clock.Now()
	ids, ok := t.store(req.GetMessages(), now)
	if !ok {
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(t.name))
	}
	t.countRequest(now, len(ids), bytes)
	return &pubsubpb.PublishResponse{MessageIds: ids}, nil
}
