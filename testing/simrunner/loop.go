package simrunner

import (
	"container/heap"
	"fmt"
	"time"
)

// post hands something to the loop.
func (s *sim) post(f func()) { s.posts <- f }

// after does something in the loop, later.
func (s *sim) after(d time.Duration, f func()) {
	s.order++
	heap.Push(&s.later, laterCall{time.Now().Add(d), s.order, f})
}

// wake makes the runner look again when the item is ready, once.
func (s *sim) wake(it *item) {
	if !it.woken.Equal(it.ready) {
		it.woken = it.ready
		s.after(time.Until(it.ready), s.runner.schedule)
	}
}

func (s *sim) stop() {
	s.order++
	heap.Push(&s.later, laterCall{at: time.Now(), order: s.order})
}

// loop makes all calls of the runner until stop.
func (s *sim) loop() {
	t := time.NewTimer(0)
	defer t.Stop()
	for s.failed() == nil {
		next := s.later[0]
		t.Reset(time.Until(next.at))
		select {
		case f := <-s.posts:
			f()
			continue
		case <-t.C:
		}
		heap.Pop(&s.later)
		if next.f == nil {
			break
		}
		next.f()
	}
	// Bundles that still run are seen to their end.
	for s.pending > 0 {
		f := <-s.posts
		f()
	}
}

func (s *sim) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("simrunner, %s, seed %d: %w", s.cfg.Mode, s.cfg.Seed, err)
	}
	s.later = append(s.later[:0], laterCall{at: time.Now()})
}

func (s *sim) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// A laterCall is something to do at a time.
type laterCall struct {
	at    time.Time
	order int
	f     func()
}

type laterQueue []laterCall

func (q laterQueue) Len() int { return len(q) }

func (q laterQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q laterQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *laterQueue) Push(x any)   { *q = append(*q, x.(laterCall)) }

func (q *laterQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
