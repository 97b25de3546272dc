package queue

import (
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// An ending is how far a reader's end has come.
type ending struct {
	begun     bool      // nothing more is received
	emitUntil time.Time // what is buffered then is given back
	done      bool      // the last call has ended
}

// Drain makes the reader stop: nothing more is received, what is buffered is
// emitted until emitUntil and given back then, and the next call to end is
// Done. It returns at once.
func (r *Reader[M]) Drain(emitUntil time.Time) {
	r.mu.Lock()
	if !r.ending.begun {
		r.ending.begun, r.ending.emitUntil = true, emitUntil
		if cancel := r.receive.cancel; cancel != nil {
			cancel()
		}
	}
	r.mu.Unlock()
	poke(r.arrived)
}

// ended tells whether the call that is ending is the last one. The caller locks.
func (r *Reader[M]) ended(now time.Time) bool {
	e := &r.ending
	if !e.begun || e.done {
		return e.done
	}
	if len(r.calls) > 0 && r.cfg.Policy == commit.AtNextFinalize {
		return false // more bundles have to come, to vouch for these
	}
	if live(r.buffer) && now.Before(e.emitUntil) {
		return false
	}
	r.releaseBuffer()
	for _, x := range r.aside {
		r.settle(Release, x)
	}
	r.aside = nil
	e.done = true
	return true
}

func live[M any](buffer []*entry[M]) bool {
	for _, e := range buffer {
		if e.state == buffered {
			return true
		}
	}
	return false
}
