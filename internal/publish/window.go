package publish

import (
	"container/list"
	"context"
	"sync"
)

// targets holds what the publishers of a process share, per target name. An
// entry lives while something of it is in flight or held.
var targets = struct {
	sync.Mutex
	byName map[string]*target
}{byName: map[string]*target{}}

// A target bounds and orders what is in flight to one broker.
type target struct {
	name string

	users int // acquired or waiting; guarded by targets

	mu      sync.Mutex
	used    Room
	waiting list.List // of *waiter, first come first served
	busy    []int     // batches in flight per client
	tails   map[string]*tail
	held    map[string]error
}

// A waiter stands in the queue before a full window.
type waiter struct {
	need, limit Room
	granted     chan struct{}
}

// Room is a place in a window, or the size of one.
type Room struct {
	Batches, Messages, Bytes int
}

func (r Room) plus(o Room) Room {
	return Room{r.Batches + o.Batches, r.Messages + o.Messages, r.Bytes + o.Bytes}
}

func (r Room) minus(o Room) Room {
	return Room{r.Batches - o.Batches, r.Messages - o.Messages, r.Bytes - o.Bytes}
}

// within tells whether r stays inside limit, of which 0 is no limit.
func (r Room) within(limit Room) bool {
	ok := func(v, most int) bool { return most <= 0 || v <= most }
	return ok(r.Batches, limit.Batches) && ok(r.Messages, limit.Messages) && ok(r.Bytes, limit.Bytes)
}

// A tail is the end of a key's queue: who comes next waits for done.
type tail struct {
	done chan struct{}
}

// enter returns the target with the given name, kept until leave is called.
func enter(name string) *target {
	targets.Lock()
	defer targets.Unlock()
	t := targets.byName[name]
	if t == nil {
		t = &target{name: name, tails: map[string]*tail{}, held: map[string]error{}}
		targets.byName[name] = t
	}
	t.users++
	return t
}

// leave ends what enter began.
func (t *target) leave() {
	targets.Lock()
	defer targets.Unlock()
	t.users--
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users == 0 && len(t.held) == 0 {
		delete(targets.byName, t.name)
	}
}

// acquire takes the room needed in a window of the size limit, waiting for it
// no longer than ctx.
func (t *target) acquire(ctx context.Context, need, limit Room) error {
	t.mu.Lock()
	w := &waiter{need, limit, make(chan struct{})}
	if t.waiting.Len() == 0 && t.fits(w) {
		t.used = t.used.plus(need)
		t.mu.Unlock()
		return nil
	}
	place := t.waiting.PushBack(w)
	t.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.granted: // both happened: the room is ours and must be given back
		t.used = t.used.minus(need)
	default:
		t.waiting.Remove(place)
	}
	t.grant()
	return ctx.Err()
}

// release gives back what acquire took.
func (t *target) release(room Room) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = t.used.minus(room)
	t.grant()
}

// fits tells whether w may go now. A batch larger than the window goes alone.
func (t *target) fits(w *waiter) bool {
	return t.used.Batches == 0 || t.used.plus(w.need).within(w.limit)
}

// grant lets in those at the head of the queue who fit.
func (t *target) grant() {
	for first := t.waiting.Front(); first != nil; first = t.waiting.Front() {
		w := first.Value.(*waiter)
		if !t.fits(w) {
			return
		}
		t.used = t.used.plus(w.need)
		t.waiting.Remove(first)
		close(w.granted)
	}
}

// takeLeastBusy picks the client with the fewest batches in flight, the lowest
// of several, so that a low load needs few clients, and counts one more on it.
func (t *target) takeLeastBusy(clients int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(clients - 1)
	best := 0
	for i := range clients {
		if t.busy[i] < t.busy[best] {
			best = i
		}
	}
	t.busy[best]++
	return best
}

// take counts one more batch on a client, done one less.
func (t *target) take(client int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(client)
	t.busy[client]++
}

func (t *target) done(client int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[client]--
}

// grow makes room to count for a client. The caller locks.
func (t *target) grow(client int) {
	for len(t.busy) <= client {
		t.busy = append(t.busy, 0)
	}
}

// queueUp puts the caller at the end of key's queue. It waits for before (nil:
// nobody is ahead) and calls next when it is done.
//
// The room in the window is taken before the place in the queue, so whoever is
// first in a queue has room and moves on: a full window cannot hold up itself.
func (t *target) queueUp(key string) (before <-chan struct{}, next func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := &tail{done: make(chan struct{})}
	if prev := t.tails[key]; prev != nil {
		before = prev.done
	}
	t.tails[key] = mine
	return before, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(mine.done)
		if t.tails[key] == mine {
			delete(t.tails, key)
		}
	}
}

// hold marks key as held for cause; the first cause stays.
func (t *target) hold(key string, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[key] == nil {
		t.held[key] = cause
	}
}

// heldFor returns why key is held, nil where it is not.
func (t *target) heldFor(key string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[key]
}
