package pubsubfake

import "time"

const noSlot = ^uint32(0)

// An entry is one message as one subscription has it.
type entry struct {
	record
	prev, next *entry // in the backlog

	// While leased:
	leasePrev, leaseNext *entry
	lease                *leaseList
	deadline             int64 // Unix nanoseconds
	gen                  uint64
	slot                 uint32
	renewals             uint32
	owner                *stream // nil for Pull

	attempts uint32 // deliveries so far
	key      *orderKey
	listed   bool // in the backlog
	held     bool // acknowledged, but an earlier message of its key is not
	gone     bool // held, and not to come back with that message
	copied   bool // an injected duplicate of another entry
}

func (e *entry) leased() bool { return e.slot != noSlot }

// A backlog lists the entries that are not acknowledged, oldest first.
type backlog struct {
	head, tail *entry
	len        int
	bytes      int64
}

func (b *backlog) push(e *entry) { b.insert(e, b.tail) }

// insert puts e behind after; nil means in front.
func (b *backlog) insert(e, after *entry) {
	e.prev = after
	if after == nil {
		e.next = b.head
		b.head = e
	} else {
		e.next = after.next
		after.next = e
	}
	if e.next == nil {
		b.tail = e
	} else {
		e.next.prev = e
	}
	e.listed = true
	b.len++
	b.bytes += e.size
}

func (b *backlog) remove(e *entry) {
	if !e.listed {
		return
	}
	if e.prev == nil {
		b.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		b.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	e.listed = false
	b.len--
	b.bytes -= e.size
}

// An entryQueue is first in, first out; popping gives the memory back.
type entryQueue struct {
	items []*entry
	first int
}

func (q *entryQueue) len() int { return len(q.items) - q.first }

func (q *entryQueue) push(e *entry) { q.items = append(q.items, e) }

func (q *entryQueue) pop() *entry {
	if q.first == len(q.items) {
		return nil
	}
	e := q.items[q.first]
	q.items[q.first] = nil
	q.first++
	if q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	} else if q.first >= 1024 && q.first*2 >= len(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return e
}

// pushFront puts several back in front, in their order.
func (q *entryQueue) pushFront(es []*entry) {
	q.items = append(append(make([]*entry, 0, len(es)+q.len()), es...), q.items[q.first:]...)
	q.first = 0
}

// A delayQueue is a heap of entries or ordering keys that wait for a time.
type delayQueue []delayed

type delayed struct {
	at  int64 // Unix nanoseconds
	e   *entry
	key *orderKey
}

func (h delayQueue) Len() int           { return len(h) }
func (h delayQueue) Less(i, j int) bool { return h[i].at < h[j].at }
func (h delayQueue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *delayQueue) Push(x any)        { *h = append(*h, x.(delayed)) }

func (h *delayQueue) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = delayed{}
	*h = old[:len(old)-1]
	return x
}

// A subTimer is the one timer of a subscription. It fires no later than the
// next thing is due; firing early only means looking once more.
type subTimer struct {
	timer Timer
	at    int64 // when it fires; 0 while it does not
}

func (t *subTimer) arm(c Clock, now, at int64, f func()) {
	if at == 0 || t.at != 0 && t.at <= at {
		return
	}
	t.at = at
	d := time.Duration(max(at-now, 0))
	if t.timer == nil {
		t.timer = c.AfterFunc(d, f)
	} else {
		t.timer.Reset(d)
	}
}

func (t *subTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.at = 0
}
