package pubsubfake

import (
	"container/heap"
	"strconv"
	"time"
)

// A leaseTable finds leases by ack id and by deadline, both in constant time.
//
// Leases of equal length end in the order in which they begin or are renewed,
// so each length has a list of its own whose head ends first. There are few
// lengths, and a renewal only moves an entry to the end of a list.
type leaseTable struct {
	slots []*entry
	free  []uint32
	gen   uint64 // deliveries so far; the second half of an ack id
	ended []ending
	lists []*leaseList
	count int
}

// A leaseList has the leases of one length, next to end first.
type leaseList struct {
	length     time.Duration
	head, tail *entry
}

// An ending says how a delivery ended, for an ack id that comes too late.
type ending uint8

const (
	endUnknown ending = iota
	endAcked
	endNacked
	endExpired
	endRevoked
	endDeadLettered
)

// endedMask bounds the memory of past endings to the last million deliveries.
const endedMask = 1<<20 - 1

func (l *leaseList) push(e *entry) {
	e.lease, e.leasePrev, e.leaseNext = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.leaseNext = e
	}
	l.tail = e
}

func (l *leaseList) remove(e *entry) {
	if e.leasePrev == nil {
		l.head = e.leaseNext
	} else {
		e.leasePrev.leaseNext = e.leaseNext
	}
	if e.leaseNext == nil {
		l.tail = e.leasePrev
	} else {
		e.leaseNext.leasePrev = e.leasePrev
	}
	e.lease, e.leasePrev, e.leaseNext = nil, nil, nil
}

func (t *leaseTable) list(length time.Duration) *leaseList {
	for _, l := range t.lists {
		if l.length == length {
			return l
		}
	}
	l := &leaseList{length: length}
	t.lists = append(t.lists, l)
	return l
}

// add leases e until now+length.
func (t *leaseTable) add(e *entry, now int64, length time.Duration) {
	if n := len(t.free); n > 0 {
		e.slot = t.free[n-1]
		t.free = t.free[:n-1]
		t.slots[e.slot] = e
	} else {
		e.slot = uint32(len(t.slots))
		t.slots = append(t.slots, e)
	}
	t.gen++
	e.gen = t.gen
	e.renewals = 0
	e.deadline = now + int64(length)
	t.list(length).push(e)
	t.count++
}

func (t *leaseTable) renew(e *entry, now int64, length time.Duration) {
	e.lease.remove(e)
	e.deadline = now + int64(length)
	t.list(length).push(e)
}

func (t *leaseTable) remove(e *entry, how ending) {
	e.lease.remove(e)
	t.slots[e.slot] = nil
	t.free = append(t.free, e.slot)
	e.slot = noSlot
	t.count--
	i := int(e.gen & endedMask)
	for len(t.ended) <= i {
		t.ended = append(t.ended, make([]ending, min(max(1024, len(t.ended)), endedMask+1-len(t.ended)))...)
	}
	t.ended[i] = how
}

// find returns the leased entry of an ack id, or how that delivery ended.
func (t *leaseTable) find(id ackID) (*entry, ending) {
	if int(id.slot) < len(t.slots) {
		if e := t.slots[id.slot]; e != nil && e.gen == id.gen {
			return e, endUnknown
		}
	}
	if id.gen <= t.gen && t.gen-id.gen <= endedMask {
		if i := int(id.gen & endedMask); i < len(t.ended) {
			return nil, t.ended[i]
		}
	}
	return nil, endUnknown
}

// next is the earliest deadline, 0 if nothing is leased.
func (t *leaseTable) next() int64 {
	var at int64
	for _, l := range t.lists {
		if l.head != nil && (at == 0 || l.head.deadline < at) {
			at = l.head.deadline
		}
	}
	return at
}

// expired returns one entry whose lease is over, nil if there is none.
func (t *leaseTable) expired(now int64) *entry {
	for _, l := range t.lists {
		if l.head != nil && l.head.deadline <= now {
			return l.head
		}
	}
	return nil
}

// An ackID names one delivery: subscription, slot in its lease table, number of
// the delivery.
type ackID struct {
	sub  uint64
	slot uint32
	gen  uint64
}

func (s *subscription) ackIDOf(e *entry) ackID { return ackID{s.id, e.slot, e.gen} }

func (a ackID) append(b []byte) []byte {
	b = strconv.AppendUint(b, a.sub, 36)
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(a.slot), 36)
	b = append(b, '-')
	return strconv.AppendUint(b, a.gen, 36)
}

func (a ackID) String() string { return string(a.append(nil)) }

// parseAckID takes an id apart; false if it is not one of ours.
func parseAckID(s string) (ackID, bool) {
	var parts [3]uint64
	n, digits := 0, 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '-':
			if digits == 0 || n == 2 {
				return ackID{}, false
			}
			n, digits = n+1, 0
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'z':
			c -= 'a' - 10
		default:
			return ackID{}, false
		}
		if digits++; digits > 12 {
			return ackID{}, false
		}
		parts[n] = parts[n]*36 + uint64(c)
	}
	if n != 2 || digits == 0 || parts[1] > uint64(noSlot) {
		return ackID{}, false
	}
	return ackID{parts[0], uint32(parts[1]), parts[2]}, true
}

// arm sets the timer for the next thing that is due. s.mu is held.
func (s *subscription) arm(now int64) {
	if s.closed {
		return
	}
	at := s.leases.next()
	if len(s.delayed) > 0 && (at == 0 || s.delayed[0].at < at) {
		at = s.delayed[0].at
	}
	s.timer.arm(s.srv.clock, now, at, s.onTimer)
}

// onTimer does what is due and tells those that wait.
func (s *subscription) onTimer() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.timer.at = 0
	now := s.srv.clock.Now()
	s.due(now)
	s.wake()
	s.arm(now.UnixNano())
	dead := s.takeDead()
	s.mu.Unlock()
	s.srv.bury(dead)
}

// due ends the leases that are over and readies what has waited enough. Readers
// call it too, so that what they see does not depend on who is first at the
// moment of a deadline: they or the timer. The timer comes in any case, and
// buries what has been delivered too often. s.mu is held.
func (s *subscription) due(now time.Time) {
	at := now.UnixNano()
	for e := s.leases.expired(at); e != nil; e = s.leases.expired(at) {
		s.giveBack(e, endExpired, now)
	}
	for len(s.delayed) > 0 && s.delayed[0].at <= at {
		d := heap.Pop(&s.delayed).(delayed)
		if d.key != nil {
			s.order.ready(d.key)
		} else {
			s.redo.push(d.e)
		}
	}
}
