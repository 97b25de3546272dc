package pubsubfake

import (
	"context"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// CreateSubscription implements the RPC.
func (s *Server) CreateSubscription(_ context.Context, req *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if err := checkName(req.GetName(), "subscriptions"); err != nil {
		return nil, err
	}
	pb := proto.CloneOf(req)
	if pb.AckDeadlineSeconds == 0 {
		pb.AckDeadlineSeconds = minAckDeadline
	}
	if pb.MessageRetentionDuration == nil {
		pb.MessageRetentionDuration = durationpb.New(defaultRetention)
	}
	if p := pb.DeadLetterPolicy; p != nil && p.MaxDeliveryAttempts == 0 {
		p.MaxDeliveryAttempts = defaultAttempts
	}
	pb.State = pubsubpb.Subscription_ACTIVE
	if err := checkSubscription(pb); err != nil {
		return nil, err
	}
	filter, err := parseFilter(pb.GetFilter())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[pb.GetTopic()]
	if t == nil {
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(pb.GetTopic()))
	}
	if s.subscriptions[pb.Name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", shortName(pb.Name))
	}
	if s.closed {
		return nil, status.Error(codes.Unavailable, ErrClosed.Error())
	}
	sub := newSubscription(s, t, pb, filter)
	s.subscriptions[pb.Name] = sub
	t.attach(sub)
	return proto.CloneOf(pb), nil
}

func checkSubscription(pb *pubsubpb.Subscription) error {
	if d := pb.GetAckDeadlineSeconds(); d < minAckDeadline || d > maxAckDeadline {
		return invalid("Invalid ack deadline given: (ack_deadline_seconds=%d): it must be between %d and %d.", d, minAckDeadline, maxAckDeadline)
	}
	if err := checkRetention(pb.GetMessageRetentionDuration().AsDuration()); err != nil {
		return err
	}
	if p := pb.GetDeadLetterPolicy(); p != nil {
		if n := p.GetMaxDeliveryAttempts(); n < 5 || n > 100 {
			return invalid("Invalid max_delivery_attempts %d: it must be between 5 and 100.", n)
		}
		if err := checkName(p.GetDeadLetterTopic(), "topics"); err != nil {
			return err
		}
	}
	if p := pb.GetRetryPolicy(); p != nil {
		for _, d := range []*durationpb.Duration{p.GetMinimumBackoff(), p.GetMaximumBackoff()} {
			if d != nil && (d.AsDuration() < 0 || d.AsDuration().Seconds() > maxAckDeadline) {
				return invalid("Invalid retry policy backoff %v: it must be between 0 and %d seconds.", d.AsDuration(), maxAckDeadline)
			}
		}
	}
	return nil
}

// GetSubscription implements the RPC.
func (s *Server) GetSubscription(_ context.Context, req *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return proto.CloneOf(sub.pb), nil
}

// UpdateSubscription implements the RPC.
func (s *Server) UpdateSubscription(_ context.Context, req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	sub, err := s.subscription(req.GetSubscription().GetName())
	if err != nil {
		return nil, err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return nil, invalid("The update_mask in the UpdateSubscriptionRequest must be set.")
	}
	pb, err := sub.update(req)
	if err != nil {
		return nil, err
	}
	sub.topic.mu.Lock()
	sub.topic.recountKeepers()
	sub.topic.mu.Unlock()
	return pb, nil
}

func (s *subscription) update(req *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pb, in := proto.CloneOf(s.pb), req.GetSubscription()
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "ack_deadline_seconds":
			pb.AckDeadlineSeconds = in.GetAckDeadlineSeconds()
			if pb.AckDeadlineSeconds == 0 {
				pb.AckDeadlineSeconds = minAckDeadline
			}
		case "retain_acked_messages":
			pb.RetainAckedMessages = in.GetRetainAckedMessages()
		case "message_retention_duration":
			pb.MessageRetentionDuration = in.GetMessageRetentionDuration()
			if pb.MessageRetentionDuration == nil {
				pb.MessageRetentionDuration = durationpb.New(defaultRetention)
			}
		case "labels":
			pb.Labels = in.GetLabels()
		case "push_config":
			pb.PushConfig = in.GetPushConfig()
		case "expiration_policy":
			pb.ExpirationPolicy = in.GetExpirationPolicy()
		case "dead_letter_policy":
			pb.DeadLetterPolicy = in.GetDeadLetterPolicy()
			if p := pb.DeadLetterPolicy; p != nil && p.MaxDeliveryAttempts == 0 {
				p.MaxDeliveryAttempts = defaultAttempts
			}
		case "retry_policy":
			pb.RetryPolicy = in.GetRetryPolicy()
		case "enable_exactly_once_delivery":
			pb.EnableExactlyOnceDelivery = in.GetEnableExactlyOnceDelivery()
		default:
			return nil, invalid("Invalid update_mask path %q: unknown or not to be changed.", path)
		}
	}
	if err := checkSubscription(pb); err != nil {
		return nil, err
	}
	s.pb = proto.CloneOf(pb)
	return pb, nil
}

// ModifyPushConfig implements the RPC; nothing is pushed.
func (s *Server) ModifyPushConfig(_ context.Context, req *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.pb.PushConfig = req.GetPushConfig()
	return &emptypb.Empty{}, nil
}

// ListSubscriptions implements the RPC.
func (s *Server) ListSubscriptions(_ context.Context, req *pubsubpb.ListSubscriptionsRequest) (*pubsubpb.ListSubscriptionsResponse, error) {
	s.mu.RLock()
	names := namesIn(s.subscriptions, req.GetProject())
	s.mu.RUnlock()
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	resp := &pubsubpb.ListSubscriptionsResponse{NextPageToken: next}
	for _, name := range names {
		sub, err := s.subscription(name)
		if err != nil {
			continue // deleted since
		}
		sub.mu.Lock()
		resp.Subscriptions = append(resp.Subscriptions, proto.CloneOf(sub.pb))
		sub.mu.Unlock()
	}
	return resp, nil
}

// DeleteSubscription implements the RPC. Its streams end with NOT_FOUND.
func (s *Server) DeleteSubscription(_ context.Context, req *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.subscriptions, sub.name)
	s.mu.Unlock()
	sub.topic.detach(sub)
	sub.close()
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.dropAll()
	sub.endStreams(status.New(codes.NotFound, "Subscription does not exist."))
	sub.wake()
	return &emptypb.Empty{}, nil
}
