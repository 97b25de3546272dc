package queue

import (
	"errors"
	"log/slog"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// errFenced ends a bundle whose slot was taken over by a newer call.
var errFenced = errors.New("a newer call reads this slot: the runner has given this bundle up")

// A Result says how ProcessElement has to end.
type Result struct {
	// Emitted is the number of messages handed out and kept.
	Emitted int
	// Bytes is their size.
	Bytes int64
	// Resume is the delay to resume after.
	Resume time.Duration
	// Refused: the runner checkpointed or split the restriction; stop.
	Refused bool
	// Done: the slot is read to its end; finish the tracker and stop.
	Done bool
	// Err ends the bundle.
	Err error
}

// End ends the call, hands its messages to internal/commit and moves the
// watermark. It must be called exactly once, also on the way of a panic.
func (c *Call[M]) End() Result {
	if c.timer != nil {
		c.timer.Stop()
	}
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	c.ended = now
	// A split since the last Next: its residual goes on with the slot.
	c.refused = c.refused || isClosed(c.stopped)
	r.putBack(c.batch[c.pos:])
	c.batch, c.pos = nil, 0
	r.aside = append(r.aside, c.aside...)
	r.stats.Emitted.Add(int64(c.n))
	res := Result{Emitted: c.n, Bytes: c.bytes, Refused: c.refused}
	if r.call != c {
		res.Err = errFenced
		c.stake(false)
		return res
	}
	r.call = nil
	res.Err = r.receiveError()
	res.Done = res.Err == nil && !c.refused && r.ended(len(c.out), now)
	res.Resume = r.resume(c, now)
	r.rhythm.end(now, res.Resume)
	r.armPark()
	c.stake(res.Done)
	c.advance(now, res.Done) // last: a user's function may panic
	return res
}

// putBack puts messages that were not emitted back to the front of the buffer.
// The caller locks.
func (r *Reader[M]) putBack(es []*entry[M]) {
	if len(es) == 0 {
		return
	}
	for _, e := range es {
		if e.state == emitted {
			e.state = buffered
		}
	}
	r.buffer.unpop(es)
	if r.parked() && !r.ending.begun || r.ending.done {
		r.releaseBuffer()
	}
}

// resume decides when the source wants to be called again.
func (r *Reader[M]) resume(c *Call[M], now time.Time) time.Duration {
	if c.n > 0 || r.buffer.len() > 0 {
		r.empties = 0
	} else {
		r.empties++
	}
	switch {
	case r.closed:
		return 0 // to find another reader
	case c.limits.Gather && !r.ending.begun:
		return max(c.limits.Every-now.Sub(c.began), 0)
	case r.empties < idleCalls:
		return 0
	default:
		return min(minResume<<min((r.empties-idleCalls)/2, 4), maxResume)
	}
}

// advance moves the watermark. Messages put back are in the buffer by now.
func (c *Call[M]) advance(now time.Time, done bool) {
	r := c.r
	if done {
		c.est.close()
		return
	}
	var least time.Time
	for _, e := range r.buffer.all() {
		if e.state == buffered && (least.IsZero() || e.Time.Before(least)) {
			least = e.Time
		}
	}
	t := r.late.candidate(c.est.CurrentWatermark(), least, now, !r.blocked())
	c.est.advance(t, r.late.floor(now), now)
	if !t.IsZero() {
		r.stats.WatermarkLag.Store(int64(now.Sub(c.est.CurrentWatermark())))
	}
}

// stake leaves the call's messages with internal/commit. The caller locks.
func (c *Call[M]) stake(done bool) {
	r := c.r
	if r.cfg.EarlyAck {
		for _, e := range c.out {
			r.memory.add(e.key(), c.ended)
			r.settle(Ack, e)
		}
		c.out = nil
	}
	b := commit.Bundle{Slot: r.cfg.Key, Policy: r.cfg.Policy, Timeout: r.commitTimeout()}
	switch {
	case len(c.out) > 0:
		b.Done = c.outcome
	case done && r.cfg.Policy == commit.AtFinalize:
		b.Done = c.outcome
	case done:
		r.closeSoon() // nobody will vouch for this bundle, and nothing waits for it
		return
	case r.cfg.Policy == commit.AtNextFinalize && len(r.calls) > 0:
		// Empty, but it vouches for those before.
	default:
		return
	}
	if done { // the job may end with this bundle, and the process with the job
		b.Flush = func() { r.flush(finalFlush) }
	}
	if b.Done != nil {
		r.calls[c] = struct{}{}
	}
	commit.Register(c.ctx, b)
}

// finalFlush bounds how long the last bundle waits for its acknowledgements.
const finalFlush = 5 * time.Second

func (r *Reader[M]) commitTimeout() time.Duration {
	if r.cfg.CommitTimeout > 0 {
		return r.cfg.CommitTimeout
	}
	return max(commit.DefaultTimeout, 4*r.rhythm.longestCommit)
}

// outcome settles the call's messages. took is the time from the bundle's end.
func (c *Call[M]) outcome(o commit.Outcome, took time.Duration) {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if o == commit.Committed && len(c.out) > 0 {
		r.committed = max(r.committed, c.epoch)
		r.rhythm.committed(c.began, c.ended, c.waited, took, len(c.out), time.Now())
	}
	c.resolve(o)
	if r.ending.done && len(r.calls) == 0 {
		r.closeSoon()
	}
}

// closeSoon closes the reader on a goroutine of its own: Close waits, and its
// callers are served by others that must not.
func (r *Reader[M]) closeSoon() {
	time.AfterFunc(0, func() {
		if err := r.Close(); err != nil {
			slog.Warn("closing a reader", "source", r.cfg.Name, "error", err)
		}
	})
}

// resolve settles the call's messages once. The caller locks.
func (c *Call[M]) resolve(o commit.Outcome) {
	r := c.r
	delete(r.calls, c)
	if c.over {
		return
	}
	c.over = true
	now := time.Now()
	var orders map[string]bool
	for _, e := range c.out {
		if e.state != emitted {
			continue
		}
		if o == commit.Committed {
			r.memory.add(e.key(), now)
			r.settle(Ack, e)
			continue
		}
		if o == commit.Expired {
			r.stats.Expired.Add(1)
		}
		r.late.giveBack(e.Time, now)
		r.settle(Nack, e)
		if e.Order != "" {
			if orders == nil {
				orders = map[string]bool{}
			}
			orders[e.Order] = true
		}
	}
	c.out = nil
	r.releaseOrders(orders, now)
}

// releaseOrders gives back what is buffered of these ordering keys. The caller
// locks.
func (r *Reader[M]) releaseOrders(keys map[string]bool, now time.Time) {
	if len(keys) == 0 {
		return
	}
	for _, e := range r.buffer.all() {
		if e.state == buffered && keys[e.Order] {
			r.late.giveBack(e.Time, now)
			r.settle(Release, e)
		}
	}
}
