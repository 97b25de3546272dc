package pubsubfake

import (
	"container/heap"
	"slices"
	"time"
)

// release ends the lease of e without counting it as anything. s.mu is held.
func (s *subscription) release(e *entry) {
	if e.leased() {
		s.endLease(e, endRevoked)
	}
}

// endLease takes e out of the lease table and gives its stream the credit back.
func (s *subscription) endLease(e *entry, how ending) {
	s.leases.remove(e, how)
	s.counts.outstanding(s.leases.count, -e.size)
	if e.owner != nil {
		e.owner.messages--
		e.owner.bytes -= e.size
		e.owner = nil
	}
}

// ack settles e for good. s.mu is held.
func (s *subscription) ack(e *entry, now time.Time) {
	s.event(EventAcked, e, now)
	s.counts.ack(e)
	s.endLease(e, endAcked)
	s.backlog.remove(e)
	e.gone = s.pb.GetEnableExactlyOnceDelivery() // there an ack is for good
	s.finish(e)
}

// finish lets go of an entry that left the backlog.
func (s *subscription) finish(e *entry) {
	if e.key == nil {
		e.pb = nil
		return
	}
	if s.order.settle(e) {
		s.order.ready(e.key)
	}
}

// giveBack makes a leased entry available again, or moves it to the dead letter
// topic when it was delivered often enough. s.mu is held; takeDead follows.
func (s *subscription) giveBack(e *entry, how ending, now time.Time) {
	kind := EventNacked
	if how == endExpired {
		kind = EventExpired
	}
	s.event(kind, e, now)
	s.counts.giveBack(how)
	s.endLease(e, how)
	if s.tooOften(e) {
		s.event(EventDeadLettered, e, now)
		s.counts.deadLettered++
		s.backlog.remove(e)
		s.dead = append(s.dead, s.deadLetterOf(e))
		e.gone = true
		s.finish(e)
		return
	}
	if e.key != nil {
		s.giveBackKey(e, now)
		return
	}
	if d := s.backoff(e); d > 0 {
		heap.Push(&s.delayed, delayed{at: now.Add(d).UnixNano(), e: e})
		return
	}
	s.redo.push(e)
}

// giveBackKey gives back e and all that was handed out of its key behind it.
func (s *subscription) giveBackKey(e *entry, now time.Time) {
	k := e.key
	back := slices.DeleteFunc(k.rewind(e), func(x *entry) bool { return x.gone })
	after := e
	for _, x := range back {
		switch {
		case x.leased():
			s.event(EventRevoked, x, now)
			s.counts.revoked++
			s.endLease(x, endRevoked)
		case x.held:
			x.held = false
			if !x.listed {
				s.backlog.insert(x, after)
				s.counts.reopened++
			}
		}
		after = x
	}
	k.pending.pushFront(back)
	if k.queued || len(k.out) > 0 {
		return
	}
	if d := s.backoff(e); d > 0 {
		k.queued = true
		heap.Push(&s.delayed, delayed{at: now.Add(d).UnixNano(), key: k})
		return
	}
	s.order.ready(k)
}

// backoff is how long e waits before it is delivered again: the minimum
// doubled with each delivery, up to the maximum.
func (s *subscription) backoff(e *entry) time.Duration {
	p := s.pb.GetRetryPolicy()
	if p == nil {
		return 0
	}
	d, limit := 10*time.Second, 600*time.Second
	if p.GetMinimumBackoff() != nil {
		d = p.GetMinimumBackoff().AsDuration()
	}
	if p.GetMaximumBackoff() != nil {
		limit = p.GetMaximumBackoff().AsDuration()
	}
	for range min(max(e.attempts, 1)-1, 30) {
		if d *= 2; d >= limit {
			break
		}
	}
	return min(d, limit)
}

// event reports what happened to e, while it is still leased. s.mu is held.
func (s *subscription) event(kind EventKind, e *entry, now time.Time) {
	if s.srv.hook.Load() == nil {
		return
	}
	id := ""
	if e.leased() {
		id = s.ackIDOf(e).String()
	}
	s.srv.emit(Event{
		Kind: kind, Time: now, Subscription: s.name,
		Message: e.pb, AckID: id, Attempt: int(e.attempts),
	})
}

// ackResult says what became of one ack id.
type ackResult uint8

const (
	ackDone ackResult = iota
	ackLate
	ackMalformed
)

// ackIDs acknowledges ids and calls report for each that is not leased.
func (s *subscription) ackIDs(ids []string, report func(id string, r ackResult)) {
	now := s.srv.clock.Now()
	s.mu.Lock()
	for _, raw := range ids {
		e, r := s.lookup(raw, now, &s.counts.late)
		if r == ackDone {
			s.ack(e, now)
		} else {
			report(raw, r)
		}
	}
	s.wake()
	s.arm(now.UnixNano())
	dead := s.takeDead()
	s.mu.Unlock()
	s.srv.bury(dead)
}

// modifyIDs sets the deadline of ids to now+seconds(i); 0 gives them back.
func (s *subscription) modifyIDs(ids []string, seconds func(i int) int32, report func(id string, r ackResult)) {
	now := s.srv.clock.Now()
	s.mu.Lock()
	for i, raw := range ids {
		e, r := s.lookup(raw, now, &s.counts.lateModAcks)
		switch {
		case r != ackDone:
			report(raw, r)
		case seconds(i) == 0:
			s.giveBack(e, endNacked, now)
		case s.noRenew: // accepted, without effect
		default:
			s.leases.renew(e, now.UnixNano(), time.Duration(seconds(i))*time.Second)
			e.renewals++
			s.counts.modAcked++
			s.event(EventRenewed, e, now)
		}
	}
	s.wake()
	s.arm(now.UnixNano())
	dead := s.takeDead()
	s.mu.Unlock()
	s.srv.bury(dead)
}

// lookup finds the lease of an ack id and counts the ids that have none. A
// lease whose time is over is not valid even if the timer has not run yet.
func (s *subscription) lookup(raw string, now time.Time, late *lateCounts) (*entry, ackResult) {
	id, ok := parseAckID(raw)
	if !ok {
		late.malformed++
		return nil, ackMalformed
	}
	how := endUnknown
	if id.sub == s.id {
		var e *entry
		e, how = s.leases.find(id)
		if e != nil && e.deadline > now.UnixNano() {
			return e, ackDone
		}
		if e != nil {
			s.giveBack(e, endExpired, now)
			how = endExpired
		}
	}
	late.count(how)
	if late == &s.counts.late && s.srv.hook.Load() != nil {
		s.srv.emit(Event{Kind: EventLateAck, Time: now, Subscription: s.name, AckID: raw})
	}
	return nil, ackLate
}
