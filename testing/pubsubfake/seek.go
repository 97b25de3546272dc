package pubsubfake

import (
	"context"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Seek implements the RPC, to a time or to a snapshot. Every lease ends; acks
// of deliveries from before are too late.
func (s *Server) Seek(_ context.Context, req *pubsubpb.SeekRequest) (*pubsubpb.SeekResponse, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	switch target := req.GetTarget().(type) {
	case *pubsubpb.SeekRequest_Time:
		if err := target.Time.CheckValid(); err != nil {
			return nil, invalid("Invalid time to seek to: %v.", err)
		}
		sub.seekTime(target.Time.AsTime(), now)
	case *pubsubpb.SeekRequest_Snapshot:
		sn, err := s.snapshot(target.Snapshot)
		if err != nil {
			return nil, err
		}
		if sn.topic != sub.topic {
			return nil, status.Error(codes.FailedPrecondition, "The snapshot is of another topic than the subscription.")
		}
		sub.seekSnapshot(sn, now)
	default:
		return nil, invalid("A time or a snapshot to seek to is needed.")
	}
	return &pubsubpb.SeekResponse{}, nil
}

// seekTime makes retained messages published before at acknowledged and the
// others not. Acknowledged messages are retained where the subscription says
// so, or as long as the topic does.
func (s *subscription) seekTime(at, now time.Time) {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	subFloor := now.Add(-s.retention()).UnixNano()
	topicFloor := now.UnixNano()
	if d := t.pb.GetMessageRetentionDuration(); d != nil {
		topicFloor = now.Add(-d.AsDuration()).UnixNano()
	}
	retained := func(r record) bool {
		return s.pb.GetRetainAckedMessages() && r.seq >= s.startSeq && r.at >= subFloor ||
			t.pb.GetMessageRetentionDuration() != nil && r.at >= topicFloor
	}
	s.rebuild(now, func(r record, unacked bool) bool {
		return r.at >= at.UnixNano() && (unacked || retained(r))
	})
}

// seekSnapshot makes the messages of the snapshot, and all that came later, not
// acknowledged, and the others acknowledged.
func (s *subscription) seekSnapshot(sn *snapshot, now time.Time) {
	s.topic.mu.Lock()
	defer s.topic.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebuild(now, func(r record, _ bool) bool { return sn.covers(r.seq) })
}

// rebuild makes a new backlog of those messages that want wants, in the order
// of the topic. topic.mu and s.mu are held.
func (s *subscription) rebuild(now time.Time, want func(r record, unacked bool) bool) {
	unacked := map[int64]*entry{}
	for e := s.backlog.head; e != nil; e = e.next {
		if e.leased() {
			s.event(EventRevoked, e, now)
			s.counts.revoked++
			s.endLease(e, endRevoked)
		}
		if !e.copied {
			unacked[e.seq] = e
		}
	}
	s.backlog = backlog{}
	s.fresh, s.redo, s.delayed = entryQueue{}, entryQueue{}, nil
	s.order = keyTable{keys: map[string]*orderKey{}}
	for _, r := range s.candidates(unacked) {
		e := unacked[r.seq]
		if !want(r, e != nil) {
			continue
		}
		again := &entry{record: r, slot: noSlot}
		if e != nil {
			again.attempts = e.attempts
		}
		s.admit(again)
	}
	s.wake()
	s.arm(now.UnixNano())
}

// candidates are the messages that the topic keeps for this subscription's
// filter, and those not acknowledged yet, in order.
func (s *subscription) candidates(unacked map[int64]*entry) []record {
	var records []record
	kept := map[int64]bool{}
	for _, r := range s.topic.log {
		if s.filter == nil || s.filter(r.pb.GetAttributes()) {
			records = append(records, r)
			kept[r.seq] = true
		}
	}
	for seq, e := range unacked {
		if !kept[seq] {
			records = append(records, e.record)
		}
	}
	slices.SortFunc(records, func(a, b record) int { return int(a.seq - b.seq) })
	return records
}
