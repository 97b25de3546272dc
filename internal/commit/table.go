package commit

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// A slot whose bundles are not finalized for this long and this often is
	// most likely one without checkpoints.
	alarmAfter   = 5 * time.Minute
	alarmBundles = 100
	// The SDK's own finalizations are remembered this long at most.
	sdkMemory = time.Hour
)

// A bundle is all that was registered under one key.
type bundle struct {
	stakes []Bundle
	ended  time.Time
	timer  *time.Timer
}

// A held stake was finalized once and waits for a later bundle of its slot.
type held struct {
	Bundle
	ended, finalized time.Time
	timer            *time.Timer
}

// A slot is the memory that AtNextFinalize and the alarm need.
type slot struct {
	held       []*held
	waiting    int // stakes that ended well and were not finalized yet
	unheard    int // bundles that ended since the last finalization
	since      time.Time
	complained bool
}

// A call is one Done to make.
type call struct {
	done func(Outcome, time.Duration)
	o    Outcome
	took time.Duration
}

type table struct {
	mu      sync.Mutex
	open    map[key]*bundle // processing
	waiting map[key]*bundle // ended well, not finalized
	slots   map[string]*slot
	sdk     map[key]*time.Timer // bundles whose finalization the SDK asked for itself

	calls   []call
	running bool // a goroutine works through calls
	idle    *sync.Cond
}

func newTable() *table {
	t := &table{
		open:    map[key]*bundle{},
		waiting: map[key]*bundle{},
		slots:   map[string]*slot{},
		sdk:     map[key]*time.Timer{},
	}
	t.idle = sync.NewCond(&t.mu)
	return t
}

func (t *table) register(k key, b Bundle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[k]
	if o == nil {
		o = &bundle{}
		t.open[k] = o
	}
	o.stakes = append(o.stakes, b)
}

// failed tells everyone in the bundle at once.
func (t *table) failed(k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.open[k]
	delete(t.open, k)
	if b == nil {
		return
	}
	for _, s := range b.stakes {
		t.call(s, Failed, 0)
	}
}

// succeeded moves the bundle to those that wait for their finalization and
// tells whether somebody of ours does. bySDK says that the SDK wants it too.
func (t *table) succeeded(k key, bySDK bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bySDK {
		t.rememberSDK(k)
	}
	b := t.open[k]
	delete(t.open, k)
	if b == nil {
		return false
	}
	b.ended = time.Now()
	var wait time.Duration
	for _, s := range b.stakes {
		wait = max(wait, s.timeout())
		t.expectFinalization(s.Slot, b.ended)
	}
	if old := t.waiting[k]; old != nil {
		t.forget(k, old) // a runner that counts anew; nobody will name the old one
	}
	t.waiting[k] = b
	b.timer = time.AfterFunc(wait, func() { t.expired(k, b) })
	return true
}

// rememberSDK notes that the SDK itself waits for the finalization of k.
func (t *table) rememberSDK(k key) {
	if old := t.sdk[k]; old != nil {
		old.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(sdkMemory, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.sdk[k] == timer {
			delete(t.sdk, k)
		}
	})
	t.sdk[k] = timer
}

func (b Bundle) timeout() time.Duration {
	if b.Timeout > 0 {
		return b.Timeout
	}
	return DefaultTimeout
}

// expectFinalization keeps the slot's books and complains when nothing was
// finalized for long.
func (t *table) expectFinalization(name string, now time.Time) {
	s := t.slots[name]
	if s == nil {
		s = &slot{since: now}
		t.slots[name] = s
	}
	s.waiting++
	s.unheard++
	if !s.complained && s.unheard >= alarmBundles && now.Sub(s.since) >= alarmAfter {
		s.complained = true
		slog.Warn("no bundle was finalized: messages stay unacknowledged and the unsettled limit will stop the source. "+
			"Is checkpointing on (Flink: --checkpointing_interval)?",
			"slot", name, "bundles", s.unheard, "for", now.Sub(s.since).Round(time.Second))
	}
}

func (t *table) askedBySDK(k key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sdk[k] != nil
}

// finalized is the word of the runner. It returns after the Flush functions of
// the bundle, if it has any.
func (t *table) finalized(k key) {
	t.mu.Lock()
	if timer := t.sdk[k]; timer != nil {
		timer.Stop()
		delete(t.sdk, k)
	}
	b := t.waiting[k]
	delete(t.waiting, k)
	if b == nil {
		t.mu.Unlock()
		return
	}
	b.timer.Stop()
	now := time.Now()
	var flush []func()
	for _, s := range b.stakes {
		t.finalizedStake(s, b.ended, now)
		if s.Flush != nil && s.Policy == AtFinalize {
			flush = append(flush, s.Flush)
		}
	}
	if len(flush) > 0 {
		for t.running || len(t.calls) > 0 {
			t.idle.Wait()
		}
	}
	t.mu.Unlock()
	for _, f := range flush {
		f()
	}
}

func (t *table) finalizedStake(s Bundle, ended, now time.Time) {
	sl := t.slots[s.Slot]
	sl.waiting--
	sl.unheard, sl.since, sl.complained = 0, now, false
	if s.Policy == AtFinalize {
		t.call(s, Committed, now.Sub(ended))
		t.dropSlot(s.Slot)
		return
	}
	// Whoever was finalized before this bundle ended is in the checkpoint that
	// this bundle is in.
	rest := sl.held[:0]
	for _, h := range sl.held {
		if h.finalized.Before(ended) {
			h.timer.Stop()
			t.call(h.Bundle, Committed, now.Sub(h.ended))
			continue
		}
		rest = append(rest, h)
	}
	clear(sl.held[len(rest):])
	sl.held = rest
	if s.Done == nil { // it only vouches for others, and has done so
		t.dropSlot(s.Slot)
		return
	}
	h := &held{Bundle: s, ended: ended, finalized: now}
	h.timer = time.AfterFunc(s.timeout()-now.Sub(ended), func() { t.expiredHeld(h) })
	sl.held = append(sl.held, h)
}

func (t *table) expired(k key, b *bundle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[k] != b {
		return // finalized meanwhile
	}
	t.forget(k, b)
}

// forget gives up waiting for the finalization of b.
func (t *table) forget(k key, b *bundle) {
	b.timer.Stop()
	delete(t.waiting, k)
	for _, s := range b.stakes {
		t.slots[s.Slot].waiting--
		t.call(s, Expired, time.Since(b.ended))
		t.dropSlot(s.Slot)
	}
}

func (t *table) expiredHeld(h *held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sl := t.slots[h.Slot]
	if sl == nil {
		return
	}
	for i, x := range sl.held {
		if x == h {
			sl.held = slices.Delete(sl.held, i, i+1)
			t.call(h.Bundle, Expired, time.Since(h.ended))
			break
		}
	}
	t.dropSlot(h.Slot)
}

// dropSlot forgets a slot that nothing waits for, so that the table is empty
// after a run.
func (t *table) dropSlot(name string) {
	if s := t.slots[name]; s != nil && s.waiting == 0 && len(s.held) == 0 {
		delete(t.slots, name)
	}
}

// call queues one Done, in order. The hook runs under the SDK's lock, so
// nothing of the source's may run inside it.
func (t *table) call(s Bundle, o Outcome, took time.Duration) {
	if s.Done == nil {
		return
	}
	t.calls = append(t.calls, call{s.Done, o, took})
	if !t.running {
		t.running = true
		go t.work()
	}
}

// work makes the queued calls and ends when there are none.
func (t *table) work() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.calls) > 0 {
		batch := t.calls
		t.calls = nil
		t.mu.Unlock()
		for _, c := range batch {
			c.done(c.o, c.took)
		}
		t.mu.Lock()
	}
	t.running = false
	t.idle.Broadcast()
}
