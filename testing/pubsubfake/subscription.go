package pubsubfake

import (
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/status"
)

// A subscription is the state of one reader group: which messages are not yet
// acknowledged, which of them are leased until when, and who waits for more.
//
// A message that is not acknowledged is an entry. It is always in the backlog
// list, and beside that in exactly one place: in a queue (fresh, redo, delayed,
// or its ordering key's), or leased (a slot and a lease list).
type subscription struct {
	srv   *Server
	name  string
	id    uint64 // of this incarnation; part of each ack id
	topic *topic

	startSeq int64 // first message id it may see; fixed by topic.attach

	mu     sync.Mutex
	pb     *pubsubpb.Subscription
	filter filterFunc // nil: all
	closed bool

	backlog backlog
	fresh   entryQueue // never delivered
	redo    entryQueue // to be delivered again, before the fresh ones
	delayed delayQueue // waiting for their retry backoff
	order   keyTable
	leases  leaseTable
	timer   subTimer

	waiting []*waiter // readers that found nothing
	streams map[*stream]struct{}

	dead    []deadLetter // moved after mu is released
	dup     duplicates
	mute    bool
	noRenew bool
	counts  subCounts
}

func newSubscription(s *Server, t *topic, pb *pubsubpb.Subscription, f filterFunc) *subscription {
	sub := &subscription{
		srv: s, name: pb.GetName(), id: s.subIDs.Add(1), topic: t,
		pb: pb, filter: f, streams: map[*stream]struct{}{},
	}
	sub.order.keys = map[string]*orderKey{}
	return sub
}

// add takes newly stored messages. topic.mu is held.
func (s *subscription) add(records []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.enqueue(records)
	s.wake()
}

// enqueue makes entries of the records that pass the filter.
func (s *subscription) enqueue(records []record) {
	chunk := make([]entry, len(records))
	for i := range records {
		r := &records[i]
		if s.filter != nil && !s.filter(r.pb.GetAttributes()) {
			continue
		}
		e := &chunk[i]
		e.record = *r
		e.slot = noSlot
		s.admit(e)
	}
}

// admit makes an entry available for its next delivery.
func (s *subscription) admit(e *entry) {
	s.backlog.push(e)
	if s.pb.GetEnableMessageOrdering() && e.pb.GetOrderingKey() != "" {
		s.order.add(e)
	} else {
		s.fresh.push(e)
	}
}

// close ends the subscription: streams end, nothing is handed out any more.
func (s *subscription) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.stop()
}

// dropAll forgets the whole backlog. s.mu is held.
func (s *subscription) dropAll() {
	for e := s.backlog.head; e != nil; e = s.backlog.head {
		s.release(e)
		s.backlog.remove(e)
		e.pb = nil
	}
	s.fresh, s.redo, s.delayed = entryQueue{}, entryQueue{}, nil
	s.order = keyTable{keys: map[string]*orderKey{}}
}

// retention is how long an unacknowledged message is kept.
func (s *subscription) retention() time.Duration {
	if d := s.pb.GetMessageRetentionDuration(); d != nil {
		return d.AsDuration()
	}
	return defaultRetention
}

// A waiter is a reader that found nothing to read.
type waiter struct {
	ch     chan struct{} // holds one wake-up
	queued bool          // in subscription.waiting
}

func newWaiter() *waiter { return &waiter{ch: make(chan struct{}, 1)} }

func (w *waiter) wake() {
	select {
	case w.ch <- struct{}{}:
	default: // one is pending already
	}
}

// wait registers w for the next wake. s.mu is held.
func (s *subscription) wait(w *waiter) {
	if !w.queued {
		w.queued = true
		s.waiting = append(s.waiting, w)
	}
}

// wake tells all that wait that something has changed. s.mu is held.
func (s *subscription) wake() {
	for i, w := range s.waiting {
		w.queued = false
		w.wake()
		s.waiting[i] = nil
	}
	s.waiting = s.waiting[:0]
}

// leave removes w from those that wait. s.mu is held.
func (s *subscription) leave(w *waiter) {
	for i, x := range s.waiting {
		if x == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	w.queued = false
}

// endStreams makes every open stream return st. s.mu is held.
func (s *subscription) endStreams(st *status.Status) int {
	for x := range s.streams {
		if x.end == nil {
			x.end = st
		}
		x.wake()
	}
	return len(s.streams)
}
