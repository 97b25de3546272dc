package pubsubfake

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream is one open StreamingPull. Its handler sends; a second goroutine
// takes what the client sends and ends when the handler has returned.
type stream struct {
	sub *subscription
	*waiter
	version     int64 // of the protocol; from 1 on pings are answered
	maxMessages int64 // of flow control; 0 is no limit
	maxBytes    int64

	// Guarded by sub.mu:
	lease    time.Duration
	messages int64 // outstanding
	bytes    int64
	pongs    int // pings not answered yet
	confirm  []*pubsubpb.StreamingPullResponse
	end      *status.Status
	peak     int64
}

// cut limits a demand to the credit that the stream has left.
func (st *stream) cut(d demand) demand {
	if st.maxMessages > 0 {
		d.messages = min(d.messages, int(st.maxMessages-st.messages))
	}
	if st.maxBytes > 0 {
		left := st.maxBytes - st.bytes
		if left <= 0 {
			d.messages = 0
		}
		d.bytes = min(d.bytes, left)
	}
	return d
}

// StreamingPull implements the RPC.
func (s *Server) StreamingPull(conn pubsubpb.Subscriber_StreamingPullServer) error {
	first, err := conn.Recv()
	if err != nil {
		return err
	}
	if err := s.faults.onStream(conn.Context(), s, first); err != nil {
		return err
	}
	sub, err := s.subscription(first.GetSubscription())
	if err != nil {
		return err
	}
	if d := first.GetStreamAckDeadlineSeconds(); d < minAckDeadline || d > maxAckDeadline {
		return invalid("Invalid stream_ack_deadline_seconds %d: it must be between %d and %d.", d, minAckDeadline, maxAckDeadline)
	}
	st := s.newStream(sub, first)
	if err := sub.open(st); err != nil {
		return err
	}
	defer sub.shut(st)
	if err := st.input(first, true); err != nil {
		return err
	}
	s.receive(st, conn)
	if s.cfg.streamAge > 0 {
		t := s.clock.AfterFunc(s.cfg.streamAge, func() {
			st.stop(status.New(codes.Unavailable, "The service was unable to fulfill your request. Please try again. [code=8a75]"))
		})
		defer t.Stop()
	}
	return st.send(conn.Context(), conn, s)
}

func (s *Server) newStream(sub *subscription, first *pubsubpb.StreamingPullRequest) *stream {
	st := &stream{
		sub: sub, waiter: newWaiter(), version: first.GetProtocolVersion(),
		lease: time.Duration(first.GetStreamAckDeadlineSeconds()) * time.Second,
	}
	if !s.cfg.noFlowControl {
		st.maxMessages = max(first.GetMaxOutstandingMessages(), 0)
		st.maxBytes = max(first.GetMaxOutstandingBytes(), 0)
	}
	return st
}

func (s *subscription) open(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(); err != nil {
		return err
	}
	s.streams[st] = struct{}{}
	s.counts.streamsOpened++
	st.confirm = append(st.confirm, &pubsubpb.StreamingPullResponse{SubscriptionProperties: s.properties()})
	return nil
}

// shut forgets the stream; what it has leased stays leased.
func (s *subscription) shut(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	s.leave(st.waiter)
}

func (s *subscription) properties() *pubsubpb.StreamingPullResponse_SubscriptionProperties {
	return &pubsubpb.StreamingPullResponse_SubscriptionProperties{
		ExactlyOnceDeliveryEnabled: s.pb.GetEnableExactlyOnceDelivery(),
		MessageOrderingEnabled:     s.pb.GetEnableMessageOrdering(),
	}
}

// stop ends the stream with a status; the first one counts.
func (st *stream) stop(why *status.Status) {
	st.sub.mu.Lock()
	if st.end == nil {
		st.end = why
	}
	st.sub.mu.Unlock()
	st.wake()
}

// receive takes the client's requests until the stream is over.
func (s *Server) receive(st *stream, conn pubsubpb.Subscriber_StreamingPullServer) {
	s.mu.RLock()
	sv := s.serving
	s.mu.RUnlock()
	if sv == nil {
		st.stop(status.New(codes.Unavailable, "Server is shutting down."))
		return
	}
	sv.wg.Go(func() {
		for {
			req, err := conn.Recv()
			if err == nil {
				err = st.input(req, false)
			}
			if err != nil {
				// The client has finished sending or broke an agreement; at
				// io.EOF the service ends the stream with OK.
				st.stop(statusOf(err))
				return
			}
		}
	})
}

// send hands out messages until the stream ends.
func (st *stream) send(ctx context.Context, conn pubsubpb.Subscriber_StreamingPullServer, s *Server) error {
	for {
		resps, end := st.next(s)
		if end != nil {
			return end.Err()
		}
		for _, r := range resps {
			if err := conn.Send(r); err != nil {
				return err
			}
		}
		if len(resps) > 0 {
			continue
		}
		select {
		case <-st.ch:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// next collects what is to be sent now; if that is nothing, the stream waits to
// be woken.
func (st *stream) next(s *Server) ([]*pubsubpb.StreamingPullResponse, *status.Status) {
	sub := st.sub
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if st.end != nil {
		return nil, st.end
	}
	if sub.mute {
		sub.wait(st.waiter)
		return nil, nil
	}
	resps := st.confirm
	st.confirm = nil
	for ; st.pongs > 0; st.pongs-- {
		resps = append(resps, &pubsubpb.StreamingPullResponse{SubscriptionProperties: sub.properties()})
	}
	d := demand{messages: s.cfg.streamMessages, bytes: int64(s.cfg.streamBytes), lease: st.lease, owner: st}
	if msgs := sub.take(d, s.clock.Now()); len(msgs) > 0 {
		st.peak = max(st.peak, st.messages)
		sub.counts.streamPeak = max(sub.counts.streamPeak, st.peak)
		resps = append(resps, &pubsubpb.StreamingPullResponse{
			ReceivedMessages: msgs, SubscriptionProperties: sub.properties(),
		})
	}
	if len(resps) == 0 {
		sub.wait(st.waiter)
	}
	return resps, nil
}

// input does what one request of the client asks for.
func (st *stream) input(req *pubsubpb.StreamingPullRequest, first bool) error {
	if err := st.checkInput(req, first); err != nil {
		return err
	}
	if d := req.GetStreamAckDeadlineSeconds(); d != 0 {
		st.sub.mu.Lock()
		st.lease = time.Duration(d) * time.Second
		st.sub.mu.Unlock()
	}
	if len(req.GetAckIds()) > 0 {
		if err := st.ack(req.GetAckIds()); err != nil {
			return err
		}
	}
	if len(req.GetModifyDeadlineAckIds()) > 0 {
		if err := st.modify(req.GetModifyDeadlineAckIds(), req.GetModifyDeadlineSeconds()); err != nil {
			return err
		}
	}
	if !first && st.version >= 1 && len(req.GetAckIds()) == 0 && len(req.GetModifyDeadlineAckIds()) == 0 {
		st.ping()
	}
	return nil
}

// pongDelay stands for the way over a network. The client takes a stream for
// dead when the answer to a ping is not later than the ping by its clock.
const pongDelay = time.Millisecond

func (st *stream) ping() {
	st.sub.srv.clock.AfterFunc(pongDelay, func() {
		st.sub.mu.Lock()
		st.pongs++
		st.sub.mu.Unlock()
		st.wake()
	})
}

func (st *stream) checkInput(req *pubsubpb.StreamingPullRequest, first bool) error {
	if len(req.GetModifyDeadlineAckIds()) != len(req.GetModifyDeadlineSeconds()) {
		return invalid("modify_deadline_ack_ids and modify_deadline_seconds must have the same length: %d and %d.",
			len(req.GetModifyDeadlineAckIds()), len(req.GetModifyDeadlineSeconds()))
	}
	for _, d := range req.GetModifyDeadlineSeconds() {
		if d < 0 || d > maxAckDeadline {
			return invalid("Invalid modify_deadline_seconds %d: it must be between 0 and %d.", d, maxAckDeadline)
		}
	}
	if d := req.GetStreamAckDeadlineSeconds(); d != 0 && (d < minAckDeadline || d > maxAckDeadline) {
		return invalid("Invalid stream_ack_deadline_seconds %d: it must be between %d and %d.", d, minAckDeadline, maxAckDeadline)
	}
	if first {
		return nil
	}
	if req.GetSubscription() != "" {
		return invalid("subscription may only be set in the first request of a stream.")
	}
	if req.GetMaxOutstandingMessages() != 0 || req.GetMaxOutstandingBytes() != 0 || req.GetProtocolVersion() != 0 {
		return invalid("max_outstanding_messages, max_outstanding_bytes and protocol_version may only be set in the first request of a stream.")
	}
	return nil
}

// ack acknowledges over the stream. With exactly-once delivery the outcome is
// confirmed, else an id that is malformed ends the stream.
func (st *stream) ack(ids []string) error {
	if st.sub.srv.faults.swallows("Acknowledge", st.sub.name) {
		return nil
	}
	bad := badIDs{}
	st.sub.ackIDs(ids, bad.add)
	if !st.sub.exactlyOnce() {
		return bad.malformedError()
	}
	st.confirmed(&pubsubpb.StreamingPullResponse{AcknowledgeConfirmation: &pubsubpb.StreamingPullResponse_AcknowledgeConfirmation{
		AckIds: bad.rest(ids), InvalidAckIds: bad.ids,
	}})
	return nil
}

func (st *stream) modify(ids []string, seconds []int32) error {
	if st.sub.srv.faults.swallows("ModifyAckDeadline", st.sub.name) {
		return nil
	}
	bad := badIDs{}
	st.sub.modifyIDs(ids, func(i int) int32 { return seconds[i] }, bad.add)
	if !st.sub.exactlyOnce() {
		return bad.malformedError()
	}
	st.confirmed(&pubsubpb.StreamingPullResponse{ModifyAckDeadlineConfirmation: &pubsubpb.StreamingPullResponse_ModifyAckDeadlineConfirmation{
		AckIds: bad.rest(ids), InvalidAckIds: bad.ids,
	}})
	return nil
}

func (st *stream) confirmed(r *pubsubpb.StreamingPullResponse) {
	st.sub.mu.Lock()
	st.confirm = append(st.confirm, r)
	st.sub.mu.Unlock()
	st.wake()
}
