package queue

import (
	"context"
	"sync"
	"time"
)

// A member is a Reader of any message type.
type member interface {
	Drain(emitUntil time.Time)
	addTo(*Snapshot)
}

// process is every reader of the process, for those who ask about all of them:
// a program that wants to stop, or to show what goes on.
var process = struct {
	sync.Mutex
	open      map[member]struct{}
	past      Snapshot // counters of the closed ones
	draining  bool
	emitUntil time.Time
	changed   chan struct{} // closed at the next change; nil while nobody waits
}{open: map[member]struct{}{}}

func join(m member) {
	process.Lock()
	defer process.Unlock()
	process.open[m] = struct{}{}
	if process.draining {
		m.Drain(process.emitUntil)
	}
}

func leave(m member, s *Stats) {
	process.Lock()
	defer process.Unlock()
	delete(process.open, m)
	s.addTo(&process.past)
	if process.changed != nil {
		close(process.changed)
		process.changed = nil
	}
}

// DrainAll makes every reader of the process stop, also those that are opened
// later: nothing more is received, what is buffered is emitted for emitFor and
// given back then, and the sources end, so that the job ends by itself. The
// function it returns lifts this for readers opened afterwards.
func DrainAll(emitFor time.Duration) (lift func()) {
	process.Lock()
	defer process.Unlock()
	process.draining = true
	process.emitUntil = time.Now().Add(emitFor)
	for m := range process.open {
		m.Drain(process.emitUntil)
	}
	return func() {
		process.Lock()
		defer process.Unlock()
		process.draining = false
	}
}

// Totals are the counters of every reader that this process has had, and what
// the open ones hold.
func Totals() Snapshot {
	process.Lock()
	defer process.Unlock()
	s := process.past
	for m := range process.open {
		m.addTo(&s)
	}
	return s
}

// WaitClosed waits until every reader of the process has settled what it held
// and is closed, as happens soon after its source has ended.
func WaitClosed(ctx context.Context) error {
	for {
		process.Lock()
		n := len(process.open)
		if process.changed == nil && n > 0 {
			process.changed = make(chan struct{})
		}
		changed := process.changed
		process.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
