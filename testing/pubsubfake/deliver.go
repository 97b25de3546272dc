package pubsubfake

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// A demand says how much a reader takes now and on which terms.
type demand struct {
	messages int
	bytes    int64         // the message that passes it is still taken
	lease    time.Duration // of each delivery
	owner    *stream       // whose credit is used; nil for Pull
}

// take hands out and leases what is available. s.mu is held.
func (s *subscription) take(d demand, now time.Time) []*pubsubpb.ReceivedMessage {
	if d.owner != nil {
		d = d.owner.cut(d)
	}
	if d.messages <= 0 {
		return nil
	}
	s.due(now)
	c := collector{sub: s, demand: d, now: now, oldest: now.Add(-s.retention()).UnixNano()}
	c.drain(&s.redo)
	for c.room() {
		k := s.order.next()
		if k == nil {
			break
		}
		c.drainKey(k)
	}
	c.drain(&s.fresh)
	if len(c.entries) == 0 {
		return nil
	}
	s.counts.outstanding(s.leases.count, c.bytes)
	s.arm(now.UnixNano())
	return c.received()
}

// A collector gathers one batch.
type collector struct {
	sub     *subscription
	demand  demand
	now     time.Time
	oldest  int64 // publish time before which messages are past retention
	entries []*entry
	bytes   int64
}

func (c *collector) room() bool {
	return len(c.entries) < c.demand.messages && (c.demand.bytes <= 0 || c.bytes < c.demand.bytes)
}

func (c *collector) drain(q *entryQueue) {
	if c.entries == nil && q.len() > 0 {
		c.entries = make([]*entry, 0, min(q.len(), c.demand.messages))
	}
	for c.room() {
		e := q.pop()
		if e == nil {
			return
		}
		c.lease(e)
	}
}

// drainKey hands out a batch of one ordering key; the rest waits for its acks.
func (c *collector) drainKey(k *orderKey) {
	for c.room() {
		e := k.pending.pop()
		if e == nil {
			break
		}
		if c.lease(e) {
			k.out = append(k.out, e)
		}
	}
	if len(k.out) > 0 {
		return
	}
	if k.pending.len() > 0 {
		c.sub.order.ready(k)
	} else {
		delete(c.sub.order.keys, k.name)
	}
}

// lease puts e into the batch unless it is past its retention.
func (c *collector) lease(e *entry) bool {
	s := c.sub
	if e.at < c.oldest {
		s.counts.pastRetention++
		s.backlog.remove(e)
		e.pb = nil
		return false
	}
	s.leases.add(e, c.now.UnixNano(), c.demand.lease)
	e.attempts++
	if o := c.demand.owner; o != nil {
		e.owner = o
		o.messages++
		o.bytes += e.size
	}
	c.bytes += e.size
	c.entries = append(c.entries, e)
	s.counts.delivered++
	if e.attempts > 1 || e.copied {
		s.counts.redelivered++
	}
	s.event(EventDelivered, e, c.now)
	if s.dup.wants(s.counts.delivered) && !e.copied {
		s.redeliver(e)
	}
	return true
}

// redeliver queues a second delivery of the same message with its own lease.
func (s *subscription) redeliver(e *entry) {
	c := &entry{record: e.record, slot: noSlot, attempts: e.attempts, copied: true}
	s.backlog.push(c)
	s.redo.push(c)
	s.counts.duplicated++
}

// received is the batch as it goes over the wire. Messages are shared, and ids
// and wrappers are allocated once for all.
func (c *collector) received() []*pubsubpb.ReceivedMessage {
	n := len(c.entries)
	wrappers := make([]pubsubpb.ReceivedMessage, n)
	msgs := make([]*pubsubpb.ReceivedMessage, n)
	buf := make([]byte, 0, n*12)
	ends := make([]int, n)
	for i, e := range c.entries {
		buf = c.sub.ackIDOf(e).append(buf)
		ends[i] = len(buf)
	}
	all, start := string(buf), 0
	counted := c.sub.pb.GetDeadLetterPolicy() != nil
	for i, e := range c.entries {
		w := &wrappers[i]
		w.AckId = all[start:ends[i]]
		w.Message = e.pb
		if counted {
			w.DeliveryAttempt = int32(e.attempts)
		}
		msgs[i] = w
		start = ends[i]
	}
	return msgs
}

// duplicates chooses deliveries that are made twice.
type duplicates struct {
	every int64
	nth   map[int64]bool
}

func (d *duplicates) wants(n int64) bool {
	return d.every > 0 && n%d.every == 0 || d.nth[n]
}
