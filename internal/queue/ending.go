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

// over tells whether the rest of the buffer is to be given back.
func (e *ending) over(now time.Time) bool { return e.done || !now.Before(e.emitUntil) }

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

// ended tells whether the call that is ending, with n messages, is the last one.
// The caller locks.
func (r *Reader[M]) ended(n int, now time.Time) bool {
	e := &r.ending
	if !e.begun || e.done {
		return e.done
	}
	if r.live() && !e.over(now) {
		return false
	}
	r.releaseBuffer()
	if r.cfg.Policy == commit.AtNextFinalize && !r.cfg.EarlyAck && n+len(r.calls) > 0 {
		return false // more bundles have to come, to vouch for these
	}
	e.done = true
	return true
}

// live tells whether anything is there to emit.
func (r *Reader[M]) live() bool {
	for _, e := range r.buffer.all() {
		if e.state == buffered {
			return true
		}
	}
	return false
}
