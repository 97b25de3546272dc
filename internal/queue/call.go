package queue

import (
	"context"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// Limits say how long a call gathers and how much.
type Limits struct {
	// Length is how long the call may take, waiting included.
	Length time.Duration
	// Messages and Bytes bound what is emitted; 0 means no limit. A message that
	// alone is larger than Bytes is emitted alone.
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
)

// A Call is one ProcessElement call on a Reader. Only the newest call of a
// reader gets messages.
type Call[M any] struct {
	r       *Reader[M]
	ctx     context.Context
	claim   func() bool
	stopped <-chan struct{}
	fence   chan struct{} // closed when a newer call has begun
	est     *Estimator
	limits  Limits
	epoch   int64
	began   time.Time
	ended   time.Time
	waited  time.Duration // of the time between them
	timer   *time.Timer

	batch   []*entry[M] // taken out of the buffer; before pos handed out
	pos     int
	out     []*entry[M] // handed out
	aside   []*entry[M] // handed out and put aside
	n       int
	bytes   int64
	filled  bool // the next message is too large for what is left of Limits.Bytes
	refused bool
	over    bool // the outcome is known; guarded by r.mu
}

// Begin starts a call. t must be the call's tracker, and claim go through its
// lock. End must be called whatever happens. On a reader that was closed in the
// meantime the call is over at once.
func (r *Reader[M]) Begin(ctx context.Context, t *Tracker, claim func() bool, est *Estimator, limits Limits) *Call[M] {
	epoch := t.r.Epoch // the rest of t.r is the runner's to change meanwhile
	now := time.Now()
	c := &Call[M]{
		r: r, ctx: ctx, claim: claim, stopped: t.Stopped(), fence: make(chan struct{}),
		est: est, limits: limits, epoch: epoch, began: now,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visits++
	if r.park != nil {
		r.park.Stop()
	}
	if r.call != nil {
		r.fenceOff(r.call, now)
	}
	r.rhythm.awaiting = len(r.calls) > 0
	t.by.Store(r.name)
	elsewhere := r.epoch >= 0 && t.r.By != r.name
	r.rhythm.begin(now, elsewhere)
	r.supersede(epoch, elsewhere)
	if r.epoch < 0 && (epoch > 0 || !est.fresh()) || r.epoch >= 0 && (elsewhere || epoch > r.epoch+1) {
		r.late.takeOver(est.CurrentWatermark(), est.State(), now)
	}
	r.epoch = epoch
	r.call = c
	if c.limits.Messages == 0 && !c.limits.Gather {
		c.limits.Messages = r.rhythm.limit
	}
	r.startReceiving()
	return c
}

// fenceOff ends a call that another one follows before it has ended: the runner
// has given it up, and its messages will come again. The caller locks.
func (r *Reader[M]) fenceOff(old *Call[M], now time.Time) {
	close(old.fence)
	// What the old call has taken cannot be told from what waits for its commit
	// before it ends, so the watermark is held by all of it.
	for e := r.held.first; e != nil; e = e.next {
		if e.state == emitted {
			r.late.giveBack(e.Time, now)
		}
	}
}

// supersede gives back what was emitted at this epoch or later: the runner went
// back to an earlier checkpoint, and those outputs are gone. When the slot was
// read elsewhere in the meantime, nobody here knows how far it went back, and
// under AtNextFinalize the slot's next bundles would vouch for what is gone: all
// of it is given back.
func (r *Reader[M]) supersede(epoch int64, elsewhere bool) {
	all := elsewhere && r.cfg.Policy == commit.AtNextFinalize
	for c := range r.calls {
		if all || c.epoch >= epoch {
			c.resolve(commit.Failed)
		}
	}
}

// Next is the next message to emit. It waits for one as long as the call may
// take, and returns nil when the call is over. The message is the caller's until
// End.
func (c *Call[M]) Next() *Delivery[M] {
	for {
		if c.full() {
			return nil
		}
		e := c.peek()
		if e == nil {
			if !c.wait() {
				return nil
			}
			continue
		}
		if c.limits.Bytes > 0 && c.n > 0 && c.bytes+int64(e.Bytes) > c.limits.Bytes {
			c.filled = true
			return nil
		}
		if !c.claim() {
			c.refused = true
			return nil
		}
		c.pos++
		c.out = append(c.out, e)
		c.n++
		c.bytes += int64(e.Bytes)
		return &e.Delivery
	}
}

// full tells whether the call has to end though there may be messages.
func (c *Call[M]) full() bool {
	switch {
	case c.refused || c.filled || isClosed(c.fence):
		return true
	case c.limits.Messages > 0 && c.n >= c.limits.Messages, c.limits.Bytes > 0 && c.bytes >= c.limits.Bytes:
		return true
	case isClosed(c.stopped):
		c.refused = true
		return true
	default:
		return c.n > 0 && time.Since(c.began) >= c.limits.Length
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// peek is the next message of the buffer, nil if it is empty.
func (c *Call[M]) peek() *entry[M] {
	if c.pos == len(c.batch) {
		c.refill()
		if len(c.batch) == 0 {
			return nil
		}
	}
	return c.batch[c.pos]
}

// refill takes messages out of the buffer.
func (c *Call[M]) refill() {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	c.batch, c.pos = c.batch[:0], 0
	if r.call != c || r.ending.begun && r.ending.over(time.Now()) {
		return
	}
	if c.batch == nil {
		c.batch = make([]*entry[M], 0, takeBatch)
	}
	n := takeBatch
	if c.limits.Messages > 0 {
		n = min(n, c.limits.Messages-c.n)
	}
	for len(c.batch) < n {
		e := r.buffer.pop()
		if e == nil {
			return
		}
		if e.state == buffered { // else its lease was lost
			e.state = emitted
			c.batch = append(c.batch, e)
		}
	}
}

// wait waits for messages and tells whether it is worth looking again.
func (c *Call[M]) wait() bool {
	left, ok := c.patience()
	if !ok {
		return false
	}
	if c.timer == nil {
		c.timer = time.NewTimer(left)
	} else {
		c.timer.Reset(left)
	}
	began := time.Now()
	defer func() { c.waited += time.Since(began) }()
	select {
	case <-c.r.arrived:
		return true
	case <-c.stopped:
		c.refused = true
	case <-c.fence:
	case <-c.timer.C:
	case <-c.ctx.Done():
	}
	return false
}

// patience is how long to wait for a message, if at all.
func (c *Call[M]) patience() (left time.Duration, ok bool) {
	r := c.r
	r.mu.Lock()
	idle := r.empties >= idleCalls && !c.limits.Gather
	dead := r.err != nil || r.ending.begun || r.closed
	// What fills the bound waits for this bundle's end: nothing more can come.
	stuck := c.n > 0 && r.full()
	r.mu.Unlock()
	left = c.limits.Length - time.Since(c.began)
	switch {
	case dead || stuck || idle && c.n == 0:
		return 0, false
	case c.n == 0 && c.limits.First > 0:
		left = min(left, c.limits.First-time.Since(c.began))
	case c.n > 0 && c.limits.Quiet == Immediate:
		return 0, false
	case c.n > 0 && c.limits.Quiet > 0:
		left = min(left, c.limits.Quiet)
	}
	return left, left > 0
}

// Blocked tells whether silence means nothing: the reader is not connected, or
// holds all that it may.
func (c *Call[M]) Blocked() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return c.r.blocked()
}

// PutAside takes the message that Next returned last out of the call: it is not
// emitted, stays unsettled and is released when the source ends or is left.
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
