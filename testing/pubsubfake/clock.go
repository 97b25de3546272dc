package pubsubfake

import (
	"container/heap"
	"sync"
	"time"
)

// A Clock tells the time and calls back later. The default is the time package,
// which inside a testing/synctest bubble is the bubble's clock.
type Clock interface {
	// Now is the present time.
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a pending call of a Clock's AfterFunc; a *time.Timer is one.
type Timer interface {
	// Stop cancels the call and tells whether it was still pending.
	Stop() bool
	// Reset makes the call happen d from now and tells whether it was pending.
	Reset(d time.Duration) bool
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// A ManualClock moves only when told to. It is for tests that cannot run in a
// synctest bubble, for example because the server is reached over TCP.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers manualTimers
}

// NewManualClock makes a clock that stands at start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now is the time the clock was last moved to.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f from within the Advance that passes d from now.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) Timer {
	t := &manualTimer{clock: c, f: f, index: -1}
	t.Reset(d)
	return t
}

// Advance moves the clock by d and makes every call that has become due, in
// order of time, before it returns.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for len(c.timers) > 0 && !c.timers[0].at.After(end) {
		t := heap.Pop(&c.timers).(*manualTimer)
		if t.at.After(c.now) {
			c.now = t.at
		}
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

type manualTimer struct {
	clock *ManualClock
	f     func()
	at    time.Time
	index int
}

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.stop()
}

func (t *manualTimer) stop() bool {
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.index)
	return true
}

func (t *manualTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	pending := t.stop()
	t.at = t.clock.now.Add(d)
	heap.Push(&t.clock.timers, t)
	return pending
}

type manualTimers []*manualTimer

func (h manualTimers) Len() int           { return len(h) }
func (h manualTimers) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h manualTimers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *manualTimers) Push(x any) {
	t := x.(*manualTimer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *manualTimers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
