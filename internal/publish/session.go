package publish

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// A Session is one bundle's use of a Publisher: it collects the outcomes of
// what the bundle submitted, so that the bundle's own thread can emit them. Its
// methods are called from that thread.
//
// When the session's context ends, outcomes are not made up: Submit and Wait
// return an error, and the bundle must fail and be run again.
type Session[M, R any] struct {
	p      *Publisher[M, R]
	ctx    context.Context
	cancel context.CancelFunc
	change chan struct{} // holds a token after each change
	ready  atomic.Int64  // outcomes that Drain would return

	mu   sync.Mutex
	done []Outcome[M, R]
	open int // batches without outcomes
	err  error
}

// NewSession begins a session, whose sends end with ctx at the latest.
func (p *Publisher[M, R]) NewSession(ctx context.Context) *Session[M, R] {
	s := &Session[M, R]{p: p, change: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Submit takes over b and sends it in the background. It blocks while the
// target's window is full, no longer than the session's context.
func (s *Session[M, R]) Submit(b Batch[M]) error {
	if len(b.Messages) == 0 {
		return nil
	}
	t := enter(s.p.Target)
	if err := t.acquire(s.ctx, b.room(), s.p.Window); err != nil {
		t.leave()
		return fmt.Errorf("waiting for room to publish to %s: %w", s.p.Target, err)
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	var before <-chan struct{}
	next := func() {}
	if b.Order != "" {
		before, next = t.queueUp(b.Order)
	}
	go s.send(t, b, before, next)
	return nil
}

// send owns the batch from here: its goroutine ends when the outcomes are
// known, bounded by the policy and the session's context.
func (s *Session[M, R]) send(t *target, b Batch[M], before <-chan struct{}, next func()) {
	defer t.leave()
	defer t.release(b.room())
	defer next()
	if before != nil {
		// Also when our context has ended: who waits for us must not overtake
		// the batch ahead of us. That one ends within its own policy.
		<-before
	}
	out, err := s.p.deliver(s.ctx, t, b)
	s.mu.Lock()
	s.open--
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("publishing to %s: %w", s.p.Target, err)
	}
	s.done = append(s.done, out...)
	s.ready.Add(int64(len(out)))
	s.mu.Unlock()
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// Drain returns the outcomes that came since the last Drain. It does not block.
func (s *Session[M, R]) Drain() []Outcome[M, R] {
	if s.ready.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take()
}

func (s *Session[M, R]) take() []Outcome[M, R] {
	out := s.done
	s.done = nil
	s.ready.Store(0)
	return out
}

// Wait returns the remaining outcomes once every submitted batch has its own.
// It returns an error instead, and no outcome, when ctx or the session's
// context ends before.
func (s *Session[M, R]) Wait(ctx context.Context) ([]Outcome[M, R], error) {
	for {
		s.mu.Lock()
		if s.err != nil {
			defer s.mu.Unlock()
			return nil, s.err
		}
		if s.open == 0 {
			defer s.mu.Unlock()
			return s.take(), nil
		}
		s.mu.Unlock()
		select {
		case <-s.change:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for answers of %s: %w", s.p.Target, ctx.Err())
		case <-s.ctx.Done():
			return nil, fmt.Errorf("waiting for answers of %s: %w", s.p.Target, s.ctx.Err())
		}
	}
}

// Close ends the session's sends. What they had not settled stays without an
// outcome, so call it only after Wait, or for a bundle that has failed.
func (s *Session[M, R]) Close() { s.cancel() }
