package pubsubfake

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// maxPullBytes bounds the answer of a Pull.
const maxPullBytes = 10 << 20

func (s *Server) subscription(name string) (*subscription, error) {
	s.mu.RLock()
	sub := s.subscriptions[name]
	s.mu.RUnlock()
	if sub == nil {
		if err := checkName(name, "subscriptions"); err != nil {
			return nil, err
		}
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(name))
	}
	return sub, nil
}

// readable tells whether messages may be read. s.mu is held.
func (s *subscription) readable() error {
	if s.pb.GetDetached() {
		return status.Error(codes.FailedPrecondition, "Subscription is detached.")
	}
	if s.closed {
		return status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(s.name))
	}
	return nil
}

func (s *subscription) exactlyOnce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pb.GetEnableExactlyOnceDelivery()
}

// Pull implements the RPC. It waits for a first message, for a bounded time.
func (s *Server) Pull(ctx context.Context, req *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	if req.GetMaxMessages() <= 0 {
		return nil, invalid("Invalid max_messages %d: it must be positive.", req.GetMaxMessages())
	}
	wait := s.cfg.pullWait
	if req.GetReturnImmediately() { //nolint:staticcheck // deprecated, still served
		wait = 0
	}
	w := newWaiter()
	var over chan struct{}
	for first := true; ; first = false {
		msgs, err := sub.pull(req.GetMaxMessages(), w, first, wait > 0)
		if err != nil {
			return nil, err
		}
		if len(msgs) > 0 || wait == 0 {
			return &pubsubpb.PullResponse{ReceivedMessages: msgs}, nil
		}
		if over == nil {
			over = make(chan struct{})
			t := s.clock.AfterFunc(wait, func() { close(over) })
			defer t.Stop()
		}
		select {
		case <-w.ch:
		case <-over:
			wait = 0 // one last look
		case <-ctx.Done():
			sub.cancel(w)
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (s *subscription) pull(n int32, w *waiter, first, wait bool) ([]*pubsubpb.ReceivedMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(); err != nil {
		return nil, err
	}
	if first {
		s.counts.pulls++
	}
	d := demand{
		messages: int(n), bytes: maxPullBytes,
		lease: time.Duration(s.pb.GetAckDeadlineSeconds()) * time.Second,
	}
	msgs := s.take(d, s.srv.clock.Now())
	if len(msgs) == 0 && wait {
		s.wait(w)
	} else {
		s.leave(w)
	}
	return msgs, nil
}

func (s *subscription) cancel(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(w)
}

// Acknowledge implements the RPC.
func (s *Server) Acknowledge(_ context.Context, req *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	if len(req.GetAckIds()) == 0 {
		return nil, invalid("No ack ids specified.")
	}
	bad := badIDs{}
	sub.ackIDs(req.GetAckIds(), bad.add)
	return settled(sub, &bad)
}

// ModifyAckDeadline implements the RPC.
func (s *Server) ModifyAckDeadline(_ context.Context, req *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	d := req.GetAckDeadlineSeconds()
	if d < 0 || d > maxAckDeadline {
		return nil, invalid("Invalid ack_deadline_seconds %d: it must be between 0 and %d.", d, maxAckDeadline)
	}
	if len(req.GetAckIds()) == 0 {
		return nil, invalid("No ack ids specified.")
	}
	bad := badIDs{}
	sub.modifyIDs(req.GetAckIds(), func(int) int32 { return d }, bad.add)
	return settled(sub, &bad)
}

func settled(sub *subscription, bad *badIDs) (*emptypb.Empty, error) {
	if sub.exactlyOnce() {
		if err := bad.exactlyOnceError(); err != nil {
			return nil, err
		}
		return &emptypb.Empty{}, nil
	}
	if err := bad.malformedError(); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}
