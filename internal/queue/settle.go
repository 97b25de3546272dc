package queue

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// settleCalls is how many calls of Broker.Settle run at once.
const settleCalls = 4

// A settlement is one handle to tell the broker about.
type settlement[M any] struct {
	h handle
	e *entry[M] // to drop when the broker has heard; nil for a duplicate's handle
}

// settle queues all handles of e. The caller locks.
func (r *Reader[M]) settle(how Settlement, e *entry[M]) {
	if e.state == settling || e.state == gone {
		return
	}
	e.state, e.how = settling, how
	r.settleExtra(how, e)
	r.enqueue(how, settlement[M]{e.handle, e})
}

func (r *Reader[M]) settleExtra(how Settlement, e *entry[M]) {
	for _, x := range e.extra {
		r.settleHandle(how, x.handle)
	}
	r.extras -= len(e.extra)
	e.extra = nil
}

func (r *Reader[M]) settleHandle(how Settlement, h handle) {
	r.enqueue(how, settlement[M]{h: h})
}

func (r *Reader[M]) enqueue(how Settlement, s settlement[M]) {
	r.queue[how] = append(r.queue[how], s)
	poke(r.kick)
}

// settleLoop sends what is queued until the reader ends.
func (r *Reader[M]) settleLoop() {
	slots := make(chan struct{}, settleCalls)
	for {
		how, batch := r.nextSettlements()
		if len(batch) == 0 {
			select {
			case <-r.kick:
				continue
			case <-r.ctx.Done():
			}
			for range settleCalls { // wait for those under way
				slots <- struct{}{}
			}
			return
		}
		slots <- struct{}{}
		r.loops.Go(func() {
			defer func() { <-slots }()
			r.send(how, batch)
		})
	}
}

// nextSettlements takes the next batch: what has to come again first.
func (r *Reader[M]) nextSettlements() (Settlement, []settlement[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ending := r.endingReceipt()
	for _, how := range []Settlement{Nack, Release, Ack} {
		if ending && how != Ack {
			continue // it would come again at once, and be given back again
		}
		if q := r.queue[how]; len(q) > 0 {
			n := min(len(q), SettleBatch)
			batch := q[:n:n]
			if r.queue[how] = q[n:]; n == len(q) {
				r.queue[how] = nil
			}
			r.inFlight += n
			return how, batch
		}
	}
	return Ack, nil
}

func (r *Reader[M]) send(how Settlement, batch []settlement[M]) {
	handles := make([]any, len(batch))
	for i, s := range batch {
		handles[i] = s.h.h
	}
	failed, err := r.broker.Settle(r.ctx, how, handles)
	now := time.Now()
	if err != nil {
		slog.Warn("settling messages; the broker will deliver them again", "source", r.cfg.Name,
			"settlement", how.String(), "messages", len(failed), "error", err)
	}
	r.stats.SettleFailed.Add(int64(len(failed)))
	n := int64(len(batch) - len(failed))
	switch how {
	case Ack:
		r.stats.Acked.Add(n)
	case Nack:
		r.stats.Nacked.Add(n)
	case Release:
		r.stats.Released.Add(n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch {
		if how == Ack && (s.h.lost || !s.h.until.IsZero() && s.h.until.Before(now)) {
			r.stats.AckExpired.Add(1)
		}
		if s.e != nil {
			r.drop(s.e)
		}
	}
	clear(batch) // its memory is still part of the queue's
	r.inFlight -= len(batch)
	if r.nothingToSettle() {
		close(r.settled)
		r.settled = make(chan struct{})
	}
}

func (r *Reader[M]) nothingToSettle() bool {
	return r.inFlight == 0 && len(r.queue[Ack])+len(r.queue[Nack])+len(r.queue[Release]) == 0
}

// flush waits until the broker has heard of everything settled so far.
func (r *Reader[M]) flush(timeout time.Duration) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		r.mu.Lock()
		idle, settled := r.nothingToSettle(), r.settled
		r.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-settled:
		case <-t.C:
			slog.Warn("the broker did not answer; unsettled messages will be delivered again", "source", r.cfg.Name)
			return
		}
	}
}

// renewLoop renews leases from receipt to outcome.
func (r *Reader[M]) renewLoop() {
	t := time.NewTimer(r.renewEvery())
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
		}
		r.renewDue()
		t.Reset(r.renewEvery())
	}
}

// renewEvery leaves time for two more tries before a lease at half its life ends.
func (r *Reader[M]) renewEvery() time.Duration {
	return min(max(r.cfg.Lease()/6, 100*time.Millisecond), 10*time.Second)
}

// renewDue renews the leases that have less than half of a step left.
func (r *Reader[M]) renewDue() {
	step := r.cfg.Lease()
	for _, batch := range r.due(step) {
		if r.ctx.Err() != nil {
			return
		}
		r.renew(step, batch)
	}
}

// A renewal is one handle to renew.
type renewal[M any] struct {
	e *entry[M]
	h any
}

func (r *Reader[M]) due(step time.Duration) (batches [][]renewal[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	soon := time.Now().Add(step / 2)
	var batch []renewal[M]
	add := func(e *entry[M], h handle) {
		if h.lost || h.until.After(soon) {
			return
		}
		if len(batch) == SettleBatch {
			batches, batch = append(batches, batch), nil
		}
		batch = append(batch, renewal[M]{e, h.h})
	}
	for e := r.held.first; e != nil; e = e.next {
		if e.state != buffered && e.state != emitted {
			continue
		}
		add(e, e.handle)
		for _, x := range e.extra {
			add(e, x.handle)
		}
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}

func (r *Reader[M]) renew(step time.Duration, batch []renewal[M]) {
	handles := make([]any, len(batch))
	for i, x := range batch {
		handles[i] = x.h
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, max(step/3, time.Second))
	lost, err := r.broker.Renew(ctx, step, handles)
	cancel()
	if err != nil && r.ctx.Err() == nil {
		slog.Warn("renewing leases; trying again", "source", r.cfg.Name, "messages", len(batch), "error", err)
	}
	isLost := make(map[any]bool, len(lost))
	for _, h := range lost {
		isLost[h] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, x := range batch {
		switch {
		case isLost[x.h]:
			r.loseLease(x, now)
		case err != nil:
			if x.e.handle.h == x.h && x.e.handle.until.Before(now) {
				r.loseLease(x, now)
			}
		default:
			r.stats.Renewed.Add(1)
			x.e.renewed(x.h, start.Add(step))
		}
	}
}

func (e *entry[M]) renewed(h any, until time.Time) {
	if e.handle.h == h {
		e.handle.until = until
	}
	for i := range e.extra {
		if e.extra[i].h == h {
			e.extra[i].until = until
		}
	}
}

// loseLease deals with a lease that ended: the broker will deliver the message
// again. One that was not emitted is dropped; one that was waits for its
// outcome, and its late acknowledgement is counted.
func (r *Reader[M]) loseLease(x renewal[M], now time.Time) {
	e := x.e
	if e.state == settling || e.state == gone {
		return
	}
	if e.handle.h != x.h {
		r.loseDuplicate(x)
		return
	}
	r.stats.LeaseExpired.Add(1)
	e.handle.lost = true
	r.late.giveBack(e.Time, now)
	if e.state == buffered {
		r.settleExtra(Release, e)
		r.drop(e)
		if e.Order != "" {
			r.releaseOrders(map[string]bool{e.Order: true}, now)
		}
	}
}

// loseDuplicate forgets a duplicate's handle; its redelivery will be known again.
func (r *Reader[M]) loseDuplicate(x renewal[M]) {
	for i, d := range x.e.extra {
		if d.h == x.h {
			x.e.extra = slices.Delete(x.e.extra, i, i+1)
			r.extras--
			r.stats.LeaseExpired.Add(1)
			return
		}
	}
}
