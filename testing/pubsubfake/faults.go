package pubsubfake

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// A Fault makes calls misbehave. The first group of fields says which calls it
// is about, the second which of these it strikes, the third what then happens.
// Zero fields restrict nothing and do nothing.
type Fault struct {
	// Method is the RPC's name, for example "Publish", "StreamingPull" (when it
	// is opened), "Acknowledge", "ModifyAckDeadline"; empty means every one.
	Method string `json:"method,omitempty"`
	// Topic and Subscription are full names.
	Topic        string `json:"topic,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	// OrderingKey wants a publish request with this key.
	OrderingKey string `json:"ordering_key,omitempty"`
	// Attributes wants a publish request with a message that has them all.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Match wants a publish request with a message for which it returns true.
	Match func(*pubsubpb.PubsubMessage) bool `json:"-"`
	// When sees any request and decides.
	When func(req proto.Message) bool `json:"-"`

	// Skip lets the first matching calls pass.
	Skip int `json:"skip,omitempty"`
	// Every strikes each n-th matching call after that; 0 and 1 strike all.
	Every int `json:"every,omitempty"`
	// Times ends the fault after so many strikes; 0 means never.
	Times int `json:"times,omitempty"`

	// Delay passes before the call is served, AnswerDelay before it is answered.
	Delay       time.Duration `json:"delay,omitempty"`
	AnswerDelay time.Duration `json:"answer_delay,omitempty"`
	// Code and Text are the error; codes.OK is none.
	Code codes.Code `json:"code,omitempty"`
	Text string     `json:"text,omitempty"`
	// AckReason, for example "TRANSIENT_FAILURE_UNKNOWN", gives each ack id of
	// the request this reason in the error's details, as with exactly-once
	// delivery. Without Code the error is UNAVAILABLE for TRANSIENT_ reasons,
	// else INVALID_ARGUMENT.
	AckReason string `json:"ack_reason,omitempty"`
	// LoseAnswer does the work first (a Publish stores its messages) and then
	// fails with Code, UNAVAILABLE by default.
	LoseAnswer bool `json:"lose_answer,omitempty"`
	// Hang never answers: the call ends when the client gives up. With
	// LoseAnswer the work is done before.
	Hang bool `json:"hang,omitempty"`
	// Swallow answers OK and does nothing; for Acknowledge and
	// ModifyAckDeadline, also those that come over a stream.
	Swallow bool `json:"swallow,omitempty"`
}

// An Injected is a fault at work.
type Injected struct {
	fault Fault
	table *faultTable
	seen  int // guarded by table.mu
	fired int
}

// Fired counts the calls struck so far.
func (i *Injected) Fired() int {
	i.table.mu.Lock()
	defer i.table.mu.Unlock()
	return i.fired
}

// Remove ends the fault.
func (i *Injected) Remove() {
	t := i.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(slices.Clone(t.list), func(x *Injected) bool { return x == i })
	t.any.Store(len(t.list) > 0)
}

// Inject adds a fault. Where several strike a call their delays add up, and the
// first that decides the outcome does so.
func (s *Server) Inject(f Fault) *Injected {
	t := &s.faults
	i := &Injected{fault: f, table: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(slices.Clone(t.list), i)
	t.any.Store(true)
	return i
}

// ClearFaults removes all that Inject added.
func (s *Server) ClearFaults() {
	t := &s.faults
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = nil
	t.any.Store(false)
}

type faultTable struct {
	any  atomic.Bool
	mu   sync.Mutex
	list []*Injected
}

// strike returns the faults that hit this call, nil for most.
func (t *faultTable) strike(method string, req proto.Message) []*Fault {
	if !t.any.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var hit []*Fault
	for _, i := range t.list {
		if !i.fault.concerns(method, req) || !i.hits() {
			continue
		}
		hit = append(hit, &i.fault)
	}
	return hit
}

func (i *Injected) hits() bool {
	f := &i.fault
	if f.Times > 0 && i.fired >= f.Times {
		return false
	}
	i.seen++
	n := i.seen - f.Skip
	if n <= 0 || f.Every > 1 && n%f.Every != 0 {
		return false
	}
	i.fired++
	return true
}

func (f *Fault) concerns(method string, req proto.Message) bool {
	if f.Method != "" && f.Method != method {
		return false
	}
	if f.Topic != "" && f.Topic != topicIn(req) || f.Subscription != "" && f.Subscription != subscriptionIn(req) {
		return false
	}
	if (f.OrderingKey != "" || f.Attributes != nil || f.Match != nil) && !f.concernsMessages(req) {
		return false
	}
	return f.When == nil || f.When(req)
}

func (f *Fault) concernsMessages(req proto.Message) bool {
	p, ok := req.(*pubsubpb.PublishRequest)
	return ok && slices.ContainsFunc(p.GetMessages(), func(m *pubsubpb.PubsubMessage) bool {
		if f.OrderingKey != "" && m.GetOrderingKey() != f.OrderingKey {
			return false
		}
		for k, v := range f.Attributes {
			if got, ok := m.GetAttributes()[k]; !ok || got != v {
				return false
			}
		}
		return f.Match == nil || f.Match(m)
	})
}

func topicIn(req proto.Message) string {
	switch r := req.(type) {
	case interface{ GetTopic() string }:
		return r.GetTopic()
	case *pubsubpb.Topic:
		return r.GetName()
	}
	return ""
}

func subscriptionIn(req proto.Message) string {
	switch r := req.(type) {
	case interface{ GetSubscription() string }:
		return r.GetSubscription()
	case *pubsubpb.Subscription:
		return r.GetName()
	}
	return ""
}

// decides tells whether the fault determines the outcome of a call.
func (f *Fault) decides() bool {
	return f.Code != codes.OK || f.AckReason != "" || f.LoseAnswer || f.Hang || f.Swallow
}

func (f *Fault) err(req proto.Message) error {
	code, text := f.Code, f.Text
	if text == "" {
		text = "injected fault"
	}
	if f.AckReason != "" {
		if code == codes.OK {
			code = codes.InvalidArgument
			if strings.HasPrefix(f.AckReason, "TRANSIENT_") {
				code = codes.Unavailable
			}
		}
		if r, ok := req.(interface{ GetAckIds() []string }); ok {
			return ackError(code, text, r.GetAckIds(), f.AckReason)
		}
	}
	if code == codes.OK {
		code = codes.Unavailable
	}
	return status.Error(code, text)
}

// pause waits on the server's clock.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	done := make(chan struct{})
	t := s.clock.AfterFunc(d, func() { close(done) })
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (s *Server) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	s.countRPC(method)
	msg, ok := req.(proto.Message)
	if !ok {
		return handle(ctx, req)
	}
	faults := s.faults.strike(method, msg)
	if faults == nil {
		return handle(ctx, req)
	}
	var decider *Fault
	var before, after time.Duration
	for _, f := range faults {
		before += f.Delay
		after += f.AnswerDelay
		if decider == nil && f.decides() {
			decider = f
		}
	}
	if err := s.pause(ctx, before); err != nil {
		return nil, err
	}
	resp, err := decider.outcome(ctx, msg, func() (any, error) { return handle(ctx, req) })
	if perr := s.pause(ctx, after); perr != nil {
		return nil, perr
	}
	return resp, err
}

// outcome serves one call as the fault wants it; a nil fault wants nothing.
func (f *Fault) outcome(ctx context.Context, req proto.Message, handle func() (any, error)) (any, error) {
	switch {
	case f == nil:
		return handle()
	case f.Swallow:
		return &emptypb.Empty{}, nil
	case f.LoseAnswer:
		if resp, err := handle(); err != nil {
			return resp, err
		}
	}
	if f.Hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, f.err(req)
}

func (s *Server) interceptStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s.countRPC(path.Base(info.FullMethod))
	return handle(srv, ss)
}

// onStream applies faults to the opening of a stream.
func (t *faultTable) onStream(ctx context.Context, s *Server, first *pubsubpb.StreamingPullRequest) error {
	for _, f := range t.strike("StreamingPull", first) {
		if err := s.pause(ctx, f.Delay+f.AnswerDelay); err != nil {
			return err
		}
		if f.Hang {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		if f.decides() && !f.Swallow {
			return f.err(first)
		}
	}
	return nil
}

// swallows tells whether a fault takes away what comes over a stream.
func (t *faultTable) swallows(method, subscription string) bool {
	if !t.any.Load() {
		return false
	}
	var req proto.Message = &pubsubpb.AcknowledgeRequest{Subscription: subscription}
	if method == "ModifyAckDeadline" {
		req = &pubsubpb.ModifyAckDeadlineRequest{Subscription: subscription}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range t.list {
		if i.fault.Swallow && i.fault.concerns(method, req) && i.hits() {
			return true
		}
	}
	return false
}
