package simrunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
)

var (
	errInjected = errors.New("injected: the sink fails")
	errKilled   = errors.New("injected: the worker is dead")
)

// A bundle is one ProcessBundle. The first group of fields is set before it
// starts; the second belongs to its goroutine until it has ended; the third
// belongs to the runner.
type bundle struct {
	n         int
	inst      string
	src       *source
	w         *worker
	items     []*item // copies
	origin    *item   // Dataflow: the runner's
	plan      plan
	started   time.Time
	watermark mtime.Time // the output watermark when it started

	ctx       context.Context
	req       *fnpb.InstructionRequest
	out       []output
	next      []*item // residuals
	callbacks []callback
	slot      string // being processed
	err       error
	finalize  bool // asks for finalization

	mu  sync.Mutex
	cur *call

	ended     time.Time
	stale     bool                 // the runner has given it up
	heard     time.Time            // first finalization
	committed map[string]time.Time // by slot: when the source could know
	left      map[string]bool      // slots that another worker went on with before that
	durable   bool
}

// An output is one element that left the source.
type output struct {
	id    string
	slot  string
	at    mtime.Time
	first bool // the broker had delivered the message once
}

// A callback is one that the SDK would run at finalization.
type callback struct {
	until time.Time
	f     func() error
}

// RegisterCallback is what the source may call; here it works.
func (b *bundle) RegisterCallback(d time.Duration, f func() error) {
	b.callbacks = append(b.callbacks, callback{time.Now().Add(d), f})
}

// A call is one ProcessElement under way.
type call struct {
	ctx       context.Context // the bundle's
	fn        *dofn
	src       *source
	item      *item
	tracker   sdf.RTracker
	estimator any
}

// execute runs the bundle like a plan of the harness.
func (b *bundle) execute(s *sim) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); ok && (errors.Is(e, errInjected) || errors.Is(e, errKilled)) {
				err = e
				return
			}
			panic(p) // the source's own
		}
	}()
	fn, err := b.w.instance(b.ctx, b.src)
	if err != nil {
		return err
	}
	emit := func(out int, at mtime.Time, v any) { b.emit(s, out, at, v) }
	if err := fn.lifecycle(b.ctx, "StartBundle", emit); err != nil {
		return fmt.Errorf("starting the bundle: %w", err)
	}
	for _, it := range b.items {
		if err := b.process(fn, it, emit); err != nil {
			return err
		}
	}
	if err := fn.lifecycle(b.ctx, "FinishBundle", emit); err != nil {
		return fmt.Errorf("finishing the bundle: %w", err)
	}
	b.w.giveBack(b.src, fn)
	return nil
}

func (b *bundle) process(fn *dofn, it *item, emit func(int, mtime.Time, any)) error {
	b.slot = it.slot
	c := &call{ctx: b.ctx, fn: fn, src: b.src, item: it}
	elem, rest, err := b.src.decode(it)
	if err != nil {
		return err
	}
	rt, err := fn.call(b.ctx, "CreateTracker", rest)
	if err != nil {
		return fmt.Errorf("creating a tracker: %w", err)
	}
	c.tracker = rt.(sdf.RTracker)
	if fn.has("CreateWatermarkEstimator") {
		var args []any
		if b.src.stateful {
			st, err := b.src.state.decode(it.state)
			if err != nil {
				return err
			}
			args = []any{st}
		}
		if c.estimator, err = fn.call(b.ctx, "CreateWatermarkEstimator", args...); err != nil {
			return fmt.Errorf("creating a watermark estimator: %w", err)
		}
	}
	b.setCall(c)
	defer b.setCall(nil)
	cont, err := fn.process(arguments{
		ctx: b.ctx, elem: []any{elem}, tracker: rt, estimator: c.estimator, callbacks: b, emit: emit,
	})
	if err != nil {
		return fmt.Errorf("processing: %w", err)
	}
	return b.endCall(c, cont)
}

// endCall checkpoints what is to be resumed.
func (b *bundle) endCall(c *call, cont sdf.ProcessContinuation) error {
	if cont == nil || !cont.ShouldResume() {
		if !c.tracker.IsDone() {
			return errors.New("the source stopped and has not finished its restriction")
		}
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	res, err := c.residual(0)
	if err != nil {
		return err
	}
	if !c.tracker.IsDone() {
		return errors.New("checkpointing: the primary restriction is not done")
	}
	if res != nil {
		res.ready = time.Now().Add(cont.ResumeDelay())
		b.next = append(b.next, res)
	}
	return nil
}

func (b *bundle) setCall(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cur = c
}

// split is asked for by the runner while the bundle runs. asked tells whether
// there was a call to split, done whether it gave a residual.
func (b *bundle) split(fraction float64) (asked, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cur == nil || b.cur.tracker.IsDone() {
		return false, false
	}
	res, err := b.cur.residual(fraction)
	if err != nil || res == nil {
		return true, false
	}
	res.ready = time.Now()
	b.next = append(b.next, res)
	return true, true
}

// residual splits the restriction, in the order of the SDK: state first, so
// that the watermark is not overestimated.
func (c *call) residual(fraction float64) (*item, error) {
	it := c.item.copy()
	if c.src.stateful {
		st, err := c.fn.call(c.ctx, "WatermarkEstimatorState", c.estimator)
		if err != nil {
			return nil, fmt.Errorf("reading the estimator's state: %w", err)
		}
		if it.state, err = c.src.state.encode(st); err != nil {
			return nil, err
		}
	}
	if c.tracker.IsDone() {
		return nil, nil
	}
	_, res, err := c.tracker.TrySplit(fraction)
	if err != nil {
		return nil, fmt.Errorf("splitting the restriction: %w", err)
	}
	if res == nil {
		return nil, nil
	}
	if we, ok := c.estimator.(sdf.WatermarkEstimator); ok {
		it.watermark = max(it.watermark, mtime.FromTime(we.CurrentWatermark()))
	}
	it.rest, err = c.src.rest.encode(res)
	return it, err
}

// emit is the sink.
func (b *bundle) emit(s *sim, out int, at mtime.Time, v any) {
	if b.w.isDead() {
		panic(errKilled)
	}
	id := s.cfg.ID(out, v)
	if id == "" {
		return
	}
	b.out = append(b.out, output{id, b.slot, at, s.ledger.emitted(id, b)})
	n := len(b.out)
	if n == b.plan.failAt {
		s.count(FailInElement)
		panic(errInjected)
	}
	if n == b.plan.killAt {
		s.kill(b.w)
		panic(errKilled)
	}
	if b.plan.slow > 0 && n%b.plan.slow == 0 {
		time.Sleep(20 * time.Millisecond)
	}
}
