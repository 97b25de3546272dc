package queue

import (
	"context"
	"log/slog"
	"time"
)

// startReceiving runs Broker.Receive until stopReceiving. The caller locks.
func (r *Reader[M]) startReceiving() {
	if r.ending.begun || r.closed || r.err != nil {
		return
	}
	if r.receive.done != nil {
		if !isClosed(r.receive.done) {
			return
		}
		r.receive.cancel() // it ended by itself and gave no reason
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	r.receive.cancel, r.receive.done = cancel, done
	r.loops.Go(func() {
		defer poke(r.kick) // what waited for the end of this
		defer close(done)
		err := r.broker.Receive(ctx, r)
		r.Connected(false)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
		poke(r.arrived)
	})
}

// receiveError is why Receive gave up, once: the call that it is told to fails,
// and the next one tries again. The caller locks.
func (r *Reader[M]) receiveError() error {
	err := r.err
	if err == nil {
		return nil
	}
	r.err = nil
	r.receive.cancel()
	r.receive.cancel, r.receive.done = nil, nil
	if r.ending.begun {
		return nil // nothing more would have been received
	}
	return err
}

// endingReceipt tells whether Receive has been told to end for good and has not
// yet. The caller locks.
func (r *Reader[M]) endingReceipt() bool {
	return r.ending.begun && r.receive.done != nil && !isClosed(r.receive.done)
}

// stopReceiving ends Receive and waits for it.
func (r *Reader[M]) stopReceiving() {
	r.mu.Lock()
	cancel, done := r.receive.cancel, r.receive.done
	r.mu.Unlock()
	if done == nil {
		return
	}
	cancel()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.receive.done == done {
		r.receive.cancel, r.receive.done = nil, nil
		r.err = nil
	}
}

// releaseBuffer gives back what was not emitted. The caller locks.
func (r *Reader[M]) releaseBuffer() {
	now := time.Now()
	for _, e := range r.buffer.all() {
		if e.state == buffered {
			r.late.giveBack(e.Time, now)
			r.settle(Release, e)
		}
	}
	r.buffer.clear()
	for _, e := range r.aside {
		r.settle(Release, e)
	}
	r.aside = nil
}

// armPark schedules the parking of a reader that nobody visits. The caller locks.
func (r *Reader[M]) armPark() {
	if r.closed {
		return
	}
	if r.park != nil {
		r.park.Stop()
	}
	visit := r.visits
	r.park = time.AfterFunc(max(r.cfg.ParkAfter, 3*r.rhythm.gap), func() { r.unvisited(visit) })
}

// unvisited parks the reader if no call came after visit: the runner went on
// somewhere else, or ended. Messages that were emitted keep their leases until
// their outcome is known.
func (r *Reader[M]) unvisited(visit int64) {
	if !r.leftSince(visit) {
		return
	}
	r.stopReceiving()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return
	case r.visits != visit:
		// A call came while Receive was ending, and took it for running.
		r.startReceiving()
		return
	}
	if n := r.buffer.len(); n > 0 {
		slog.Debug("releasing the buffer of a reader that no bundle visits", "source", r.cfg.Name, "messages", n)
	}
	r.releaseBuffer()
	r.park = time.AfterFunc(r.cfg.CloseAfter, func() { r.idleClose(visit) })
}

func (r *Reader[M]) leftSince(visit int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visits == visit && !r.closed
}

// idleClose closes a parked reader that has nothing to settle, and looks again
// later otherwise.
func (r *Reader[M]) idleClose(visit int64) {
	r.mu.Lock()
	if r.visits != visit || r.closed {
		r.mu.Unlock()
		return
	}
	if r.held.n > 0 || len(r.calls) > 0 {
		r.park = time.AfterFunc(r.cfg.CloseAfter, func() { r.idleClose(visit) })
		r.mu.Unlock()
		return
	}
	r.closed = true // under the lock: a call that begins now must find another reader
	r.mu.Unlock()
	if err := r.Close(); err != nil {
		slog.Warn("closing an idle reader", "source", r.cfg.Name, "error", err)
	}
}

// Close stops receiving, gives back everything that is not acknowledged and
// ends the reader's goroutines and clients. A second Close waits for the first.
func (r *Reader[M]) Close() error {
	r.mu.Lock()
	first := !r.closing
	r.closing, r.closed = true, true
	r.mu.Unlock()
	if !first {
		<-r.shutDown
		return r.closeErr
	}
	defer close(r.shutDown)
	r.closeErr = r.shut()
	return r.closeErr
}

func (r *Reader[M]) shut() error {
	r.mu.Lock()
	if r.park != nil {
		r.park.Stop()
	}
	r.mu.Unlock()
	poke(r.arrived)
	// Without r.mu: the registry opens readers under its own lock, and those
	// join the process, which locks readers.
	if r.OnClose != nil {
		r.OnClose()
	}
	r.stopReceiving()
	r.mu.Lock()
	r.releaseBuffer()
	for e := r.held.first; e != nil; e = e.next {
		if e.state == emitted {
			r.settle(Nack, e)
		}
	}
	r.mu.Unlock()
	r.flush(closeFlush)
	r.stop()
	r.loops.Wait()
	err := r.broker.Close()
	leave(r, r.stats)
	return err
}

// closeFlush bounds how long Close waits for the last settlements.
const closeFlush = 10 * time.Second
