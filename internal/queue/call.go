package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// Limits say how long a call gathers and how much.
type Limits struct {
	// Length is how long the call may take, waiting included.
	Length time.Duration
	// Messages and Bytes bound what is emitted; 0 means no limit.
	Messages int
	Bytes    int64
	// First bounds the wait for the first message; zero means Length.
	First time.Duration
	// Quiet ends the call when something was emitted and then nothing came for
	// this long; zero means never, Immediate at once.
	Quiet time.Duration
	// Gather waits for the whole Length even where the reader was idle before,
	// and resumes after Every since the call's begin.
	Gather bool
	Every  time.Duration
}

// Immediate as Limits.Quiet ends a call as soon as the buffer is empty.
const Immediate = time.Nanosecond

// DefaultLimits are those of a source that nobody asked to gather.
func DefaultLimits(runner string, p commit.Policy) Limits {
	switch {
	case runner == "dataflow":
		return Limits{Length: 5 * time.Second}
	case p == commit.AtFinalize:
		// Prism splits what blocks longer than two of its 100 ms ticks.
		return Limits{Length: 50 * time.Millisecond}
	default:
		// Flink comes back to a residual about once a second.
		return Limits{Length: 2 * time.Second}
	}
}

const (
	// idleCalls is how many empty calls wait their full length before the
	// source turns to returning at once and resuming later.
	idleCalls = 3
	minResume = 250 * time.Millisecond
	maxResume = time.Second
	// takeBatch is how many messages are taken out of the buffer under one lock.
	takeBatch = 128
	// Where nothing else is asked, calls are kept so small that a bundle takes
	// no longer than this: a stop has to wait for the bundle it meets.
	bundleTarget = 2 * time.Second
	minPerCall   = 50
)

// errFenced ends a bundle whose slot was taken over by a newer call.
var errFenced = errors.New("a newer call reads this slot: the runner has given this bundle up")

// A Call is one ProcessElement call on a Reader. Only the newest call of a
// reader gets messages.
type Call[M any] struct {
	r       *Reader[M]
	ctx     context.Context
	claim   func() bool
	stopped <-chan struct{}
	est     *Estimator
	limits  Limits
	epoch   int64
	began   time.Time
	ended   time.Time
	timer   *time.Timer

	batch   []*entry[M] // taken out of the buffer, not handed out
	out     []*entry[M] // handed out
	aside   []*entry[M] // handed out and put aside
	n       int
	bytes   int64
	refused bool
	fenced  atomic.Bool
	over    bool // the outcome is known; guarded by r.mu
}

// Begin starts a call. t must be the call's tracker, and claim go through its
// lock. End must be called whatever happens.
func (r *Reader[M]) Begin(ctx context.Context, t *Tracker, claim func() bool, est *Estimator, limits Limits) *Call[M] {
	rest := t.r
	now := time.Now()
	c := &Call[M]{r: r, ctx: ctx, claim: claim, stopped: t.Stopped(), est: est, limits: limits, epoch: rest.Epoch, began: now}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.park != nil {
		r.park.Stop()
	}
	if old := r.call; old != nil {
		old.fenced.Store(true)
		poke(r.arrived)
	}
	r.rhythm.begin(now)
	r.supersede(rest.Epoch)
	if r.epoch < 0 && !est.fresh() || r.epoch >= 0 && rest.Epoch > r.epoch+1 {
		r.late.takeOver(est.State(), now)
	}
	r.epoch = rest.Epoch
	r.call = c
	if c.limits.Messages == 0 && !c.limits.Gather {
		c.limits.Messages = r.rhythm.perCall()
	}
	r.startReceiving()
	return c
}

// supersede gives back what was emitted at this epoch or later: the runner went
// back to an earlier checkpoint, and those outputs are gone.
func (r *Reader[M]) supersede(epoch int64) {
	if epoch > r.epoch {
		return
	}
	for c := range r.calls {
		if c.epoch >= epoch {
			c.resolve(commit.Failed)
		}
	}
}

// Next is the next message to emit. It waits for one as long as the call may
// take, and returns nil when the call is over.
func (c *Call[M]) Next() *Delivery[M] {
	for {
		if c.full() {
			return nil
		}
		e := c.take()
		if e == nil {
			if !c.wait() {
				return nil
			}
			continue
		}
		if c.fenced.Load() || !c.claim() {
			c.refused = true
			c.batch = append([]*entry[M]{e}, c.batch...)
			return nil
		}
		c.out = append(c.out, e)
		c.n++
		c.bytes += int64(e.Bytes)
		return &e.Delivery
	}
}

// full tells whether the call has to end though there may be messages.
func (c *Call[M]) full() bool {
	if c.refused || c.fenced.Load() {
		return true
	}
	if c.limits.Messages > 0 && c.n >= c.limits.Messages || c.limits.Bytes > 0 && c.bytes >= c.limits.Bytes {
		return true
	}
	// The clock is not looked at for each of many messages.
	if c.n%16 == 0 && c.n > 0 && time.Since(c.began) >= c.limits.Length {
		return true
	}
	select {
	case <-c.stopped:
		c.refused = true
		return true
	default:
		return false
	}
}

// take is the next message of the buffer, nil if it is empty.
func (c *Call[M]) take() *entry[M] {
	if len(c.batch) == 0 {
		c.r.mu.Lock()
		c.batch = c.r.takeBuffered(takeBatch)
		c.r.mu.Unlock()
		if len(c.batch) == 0 {
			return nil
		}
	}
	e := c.batch[0]
	c.batch = c.batch[1:]
	return e
}

// takeBuffered takes up to n messages out of the buffer.
func (r *Reader[M]) takeBuffered(n int) []*entry[M] {
	if r.ending.begun && time.Now().After(r.ending.emitUntil) {
		return nil
	}
	var out []*entry[M]
	for i, e := range r.buffer {
		if len(out) == n {
			r.buffer = r.buffer[i:]
			return out
		}
		if e.state != buffered {
			continue // its lease was lost
		}
		e.state = emitted
		out = append(out, e)
	}
	r.buffer = nil
	return out
}

// wait waits for messages and tells whether it is worth looking again.
func (c *Call[M]) wait() bool {
	left := c.limits.Length - time.Since(c.began)
	c.r.mu.Lock()
	idle := c.r.empties >= idleCalls && !c.limits.Gather
	dead := c.r.err != nil || c.r.ending.begun
	// What fills the bound waits for this bundle's end: nothing more can come.
	stuck := c.n > 0 && (c.r.held.n >= c.r.cfg.MaxMessages || c.r.bytes >= c.r.cfg.MaxBytes)
	c.r.mu.Unlock()
	if dead || stuck || left <= 0 || idle && c.n == 0 {
		return false
	}
	if c.limits.First > 0 && c.n == 0 {
		left = min(left, c.limits.First-time.Since(c.began))
		if left <= 0 {
			return false
		}
	}
	if c.limits.Quiet > 0 && c.n > 0 {
		if c.limits.Quiet == Immediate {
			return false
		}
		left = min(left, c.limits.Quiet)
	}
	if c.timer == nil {
		c.timer = time.NewTimer(left)
	} else {
		c.timer.Reset(left)
	}
	select {
	case <-c.r.arrived:
		if c.fenced.Load() {
			poke(c.r.arrived) // it was meant for the newer call
			return false
		}
		return true
	case <-c.stopped:
		c.refused = true
	case <-c.timer.C:
	case <-c.ctx.Done():
	}
	return false
}

// Blocked tells whether silence means nothing: the reader is not connected, or
// holds all that it may.
func (c *Call[M]) Blocked() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return c.r.blocked()
}

func (r *Reader[M]) blocked() bool {
	return !r.quiet || r.held.n >= r.cfg.MaxMessages || r.bytes >= r.cfg.MaxBytes
}

// PutAside takes the message that Next returned last out of the call: it is not
// emitted, stays unsettled and is released when the source ends.
func (c *Call[M]) PutAside() {
	e := c.out[len(c.out)-1]
	c.out = c.out[:len(c.out)-1]
	c.aside = append(c.aside, e)
	c.n--
	c.bytes -= int64(e.Bytes)
}

// Finish makes this one of the last calls: no more is received, and when what is
// buffered has been emitted (or emitFor is over) the slot is Done.
func (c *Call[M]) Finish(emitFor time.Duration) { c.r.Drain(time.Now().Add(emitFor)) }

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
	r.putBack(c.batch)
	r.aside = append(r.aside, c.aside...)
	res := Result{Emitted: c.n, Bytes: c.bytes, Refused: c.refused, Err: r.err}
	newest := r.call == c
	if newest {
		r.call = nil
		res.Resume = r.resume(c, now)
		res.Done = r.ended(now)
		c.advance(now, res.Done)
		r.rhythm.end(now)
		r.armPark()
	}
	if c.fenced.Load() || !newest {
		res.Err = errFenced
	}
	r.stats.Emitted.Add(int64(c.n))
	c.stake(res.Done)
	return res
}

// putBack puts messages that were not emitted back to the front of the buffer.
func (r *Reader[M]) putBack(es []*entry[M]) {
	if len(es) == 0 {
		return
	}
	for _, e := range es {
		if e.state == emitted {
			e.state = buffered
		}
	}
	r.buffer = append(append(make([]*entry[M], 0, len(es)+len(r.buffer)), es...), r.buffer...)
	if r.parked() && !r.ending.begun {
		r.releaseBuffer()
	}
}

// resume decides when the source wants to be called again.
func (r *Reader[M]) resume(c *Call[M], now time.Time) time.Duration {
	if c.n > 0 || len(r.buffer) > 0 {
		r.empties = 0
	} else {
		r.empties++
	}
	switch {
	case c.limits.Gather:
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
	for _, e := range r.buffer {
		if e.state == buffered && (least.IsZero() || e.Time.Before(least)) {
			least = e.Time
		}
	}
	t := r.late.candidate(c.est.CurrentWatermark(), least, now, !r.blocked())
	c.est.advance(t, r.late.given, now)
	if !t.IsZero() {
		r.stats.WatermarkLag.Store(int64(now.Sub(c.est.CurrentWatermark())))
	}
}

// stake leaves the call's messages with internal/commit. The caller locks.
func (c *Call[M]) stake(done bool) {
	r := c.r
	if r.cfg.EarlyAck {
		for _, e := range c.out {
			r.settle(Ack, e)
		}
		c.out = nil
	}
	// The careful policy needs to see empty bundles as well: they vouch for the
	// ones before. The last bundle is waited for.
	if len(c.out) == 0 && r.cfg.Policy == commit.AtFinalize && !done {
		return
	}
	b := commit.Bundle{Slot: r.cfg.Key, Policy: r.cfg.Policy, Timeout: r.commitTimeout()}
	if len(c.out) > 0 || done {
		r.calls[c] = struct{}{}
		b.Done = c.outcome
	}
	if done {
		b.Flush = func() { r.flush(finalFlush) }
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
		r.rhythm.committed(time.Since(c.began), time.Since(c.ended), took, len(c.out))
	}
	c.resolve(o)
	if r.ending.done && len(r.calls) == 0 && !r.closed {
		// On its own goroutine: Close waits, and this one serves all bundles.
		time.AfterFunc(0, func() { _ = r.Close() })
	}
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
	}
	c.out = nil
}
