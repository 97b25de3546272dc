package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// early is how much before its time a batch may go, so that a timer that fires
// a rounding too soon is not set again for it.
const early = 2 * time.Millisecond

// Coalesce is a DoFn on KV<shard, Chunk> that gives chunks on when they are
// closed. A chunk that is not waits in its shard for others of its destination,
// until they fill a batch or Delay has passed since the first of its messages.
// Closed chunks pass at once, whatever waits: the shard then only bounds how
// many workers publish.
//
// It keeps fewer than a batch's worth per destination and shard, in one bag,
// with one processing-time timer (two families hang in Beam Go). A shard must
// not be processed twice at a time, which Prism needs an experiment for:
// transforms that use it call internal/prism.DisableSplits.
//
// A connector registers what it instantiates: Coalesce[T] itself with
// register.DoFn7x1, the emitters, the type Chunk[T] and a coder for it (Encode,
// Decode).
type Coalesce[T any] struct {
	Count int
	Bytes int
	Delay time.Duration
	Bag   state.Bag[Chunk[T]]
	Timer timers.ProcessingTime
}

// NewCoalesce makes the DoFn.
func NewCoalesce[T any](l Limits, delay time.Duration) *Coalesce[T] {
	return &Coalesce[T]{
		Count: l.Count, Bytes: l.Bytes, Delay: delay,
		Bag: state.MakeBagState[Chunk[T]]("chunks"), Timer: timers.InProcessingTime("due"),
	}
}

// ProcessElement adds one chunk to its shard.
func (f *Coalesce[T]) ProcessElement(_ context.Context, et beam.EventTime, sp state.Provider, tp timers.Provider,
	_ int64, c Chunk[T], emit func(beam.EventTime, Chunk[T]),
) error {
	if c.Closed {
		emit(et, c)
		return nil
	}
	held, _, err := f.Bag.Read(sp)
	if err != nil {
		return fmt.Errorf("reading held messages: %w", err)
	}
	closed, rest := f.add(held, c)
	emitAll(closed, emit)
	if len(closed) == 0 { // nothing but c is new: one append
		if err := f.Bag.Add(sp, c); err != nil {
			return fmt.Errorf("holding messages: %w", err)
		}
		if before := f.plan(held); before != f.plan(rest) {
			f.set(tp, rest)
		}
		return nil
	}
	return f.replace(sp, tp, rest)
}

// OnTimer closes the batches whose time has come. A timer that was cleared may
// still fire, or fire for a batch that is gone: it looks at what is there.
func (f *Coalesce[T]) OnTimer(_ context.Context, _ beam.EventTime, sp state.Provider, tp timers.Provider,
	_ int64, _ timers.Context, emit func(beam.EventTime, Chunk[T]),
) error {
	held, _, err := f.Bag.Read(sp)
	if err != nil {
		return fmt.Errorf("reading held messages: %w", err)
	}
	if len(held) == 0 {
		return nil
	}
	closed, rest := f.due(held, time.Now())
	if len(closed) == 0 {
		f.set(tp, rest)
		return nil
	}
	emitAll(closed, emit)
	return f.replace(sp, tp, rest)
}

// replace makes rest all that is held.
func (f *Coalesce[T]) replace(sp state.Provider, tp timers.Provider, rest []Chunk[T]) error {
	if err := f.Bag.Clear(sp); err != nil {
		return fmt.Errorf("clearing held messages: %w", err)
	}
	for _, c := range rest {
		if err := f.Bag.Add(sp, c); err != nil {
			return fmt.Errorf("holding messages: %w", err)
		}
	}
	if len(rest) == 0 {
		f.Timer.Clear(tp)
		return nil
	}
	f.set(tp, rest)
	return nil
}

// set sets the timer for what is held. Its output time holds the watermark back
// for the outcomes to come.
func (f *Coalesce[T]) set(tp timers.Provider, held []Chunk[T]) {
	p := f.plan(held)
	f.Timer.Set(tp, time.Unix(0, p.due), timers.WithOutputTimestamp(mtime.Time(p.hold).ToTime()))
}

// A plan is what a timer is set to: when it is due (ns) and the earliest event
// time that waits for it (ms).
type plan struct{ due, hold int64 }

func (f *Coalesce[T]) plan(held []Chunk[T]) plan {
	if len(held) == 0 {
		return plan{}
	}
	p := plan{held[0].First, held[0].MinTime()}
	for _, c := range held[1:] {
		p.due, p.hold = min(p.due, c.First), min(p.hold, c.MinTime())
	}
	p.due += f.Delay.Nanoseconds()
	return p
}

func (f *Coalesce[T]) limits() Limits { return Limits{f.Count, f.Bytes} }

// add puts c to the chunks of its group. It returns the batches that this
// closes and what is held then; without a closed one that is held and c as they
// are.
func (f *Coalesce[T]) add(held []Chunk[T], c Chunk[T]) (closed, rest []Chunk[T]) {
	var same []Chunk[T]
	for _, h := range held {
		if h.Destination == c.Destination && h.Order == c.Order {
			same = append(same, h)
		} else {
			rest = append(rest, h)
		}
	}
	for _, j := range join(append(same, c), f.limits()) {
		if j.Closed {
			closed = append(closed, j)
		} else {
			rest = append(rest, j)
		}
	}
	if len(closed) == 0 {
		return nil, append(held, c)
	}
	return closed, rest
}

// due returns the batches whose first message is old enough, joined, and the
// chunks that wait on.
func (f *Coalesce[T]) due(held []Chunk[T], now time.Time) (closed, rest []Chunk[T]) {
	groups := map[group][]Chunk[T]{}
	old := map[group]bool{}
	var order []group
	for _, c := range held {
		g := group{c.Destination, c.Order}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], c)
		old[g] = old[g] || c.age(now) >= f.Delay-early
	}
	for _, g := range order {
		if !old[g] {
			rest = append(rest, groups[g]...)
			continue
		}
		for _, c := range join(groups[g], f.limits()) {
			c.Closed = true
			closed = append(closed, c)
		}
	}
	return closed, rest
}

func emitAll[T any](cs []Chunk[T], emit func(beam.EventTime, Chunk[T])) {
	for _, c := range cs {
		emit(beam.EventTime(c.MinTime()), c)
	}
}
