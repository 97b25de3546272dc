package simrunner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// flink runs one bundle at a time on each worker, takes checkpoints, and goes
// back to the last completed one on any failure.
type flink struct {
	s       *sim
	items   []*item             // live, none of them in a bundle
	running map[*worker]*bundle // each until the runner has its answer
	open    map[*bundle]bool    // processed and kept open for a while
	old     []*bundle           // given up, may still be processed

	unheard []*bundle // ended, not finalized
	since   []*bundle // ended since the last barrier
	last    *snapshot // completed; nil before the first
	under   *snapshot // under way
	taken   int

	barrier    bool // waiting for the running bundles to end
	restarting bool
	draining   bool
	final      bool // the last checkpoint of a drained job is being taken
	done       bool
	attempt    int // counts starts and restores: calls of an earlier one are void
}

// A snapshot is a checkpoint.
type snapshot struct {
	n       int
	items   []*item
	bundles []*bundle // whose outputs it holds, beside those of the last one
}

func newFlink(s *sim) *flink {
	return &flink{s: s, running: map[*worker]*bundle{}, open: map[*bundle]bool{}}
}

func (f *flink) start(items []*item) {
	f.abandon()
	f.items, f.last = items, nil
	f.restarting, f.draining, f.final, f.done = false, false, false, false
	f.nextCheckpoint()
}

// abandon gives up all that is not in a completed checkpoint.
func (f *flink) abandon() {
	f.attempt++
	for _, b := range f.running {
		b.stale = true
		f.old = append(f.old, b)
		if f.open[b] {
			f.close(b, f.s.rng.IntN(2) == 0)
		}
	}
	f.items, f.running = nil, map[*worker]*bundle{}
	f.unheard, f.since, f.under, f.barrier = nil, nil, nil, false
}

func (f *flink) schedule() {
	if f.restarting || f.barrier || f.done {
		return
	}
	now := time.Now()
	ready := map[*worker][]*item{}
	for _, it := range slices.Clone(f.items) {
		if f.draining && !it.truncated {
			if it = f.truncate(it); it == nil {
				continue
			}
		}
		switch {
		case it.ready.After(now):
			f.s.wake(it)
		case f.running[it.worker] == nil:
			ready[it.worker] = append(ready[it.worker], it)
		}
	}
	for _, w := range f.s.workers {
		if len(ready[w]) > 0 {
			f.launch(w, ready[w])
		}
	}
	if f.draining && len(f.items) == 0 && len(f.running) == 0 && f.under == nil && !f.final {
		f.final = true
		f.snapshot()
	}
}

func (f *flink) truncate(it *item) *item {
	left := f.s.truncate(it)
	i := slices.Index(f.items, it)
	if left == nil {
		f.s.logf("item %s truncated to nothing", it.slot)
		f.items = slices.Delete(f.items, i, i+1)
		return nil
	}
	left.ready = time.Now()
	f.items[i] = left
	return left
}

func (f *flink) launch(w *worker, items []*item) {
	s := f.s
	b := s.newBundle(w, items...)
	f.items = slices.DeleteFunc(f.items, func(it *item) bool { return slices.Contains(items, it) })
	f.running[w] = b
	s.logf("bundle %d: items %s on %s, watermark %v", b.n, slots(items), w.name, b.watermark)
	if b.plan.restore > 0 {
		s.after(b.plan.restore, func() {
			if f.running[w] == b {
				f.restore("a failure elsewhere")
			}
		})
	}
	s.ledger.begun(b)
	s.run(b)
}

func slots(items []*item) string {
	var names []string
	for _, it := range items {
		names = append(names, it.slot)
	}
	return fmt.Sprint(names)
}

func (f *flink) processed(b *bundle, err error) {
	if err == nil && b.plan.failAfter && !b.stale {
		f.s.count(FailAfterElement)
		err = errInjected
	}
	switch {
	case b.stale && err == nil:
		f.open[b] = true
		f.close(b, b.plan.rng.IntN(2) == 0)
	case err != nil || f.barrier:
		f.s.respond(b, err)
	default:
		f.open[b] = true
		f.s.after(time.Until(b.started.Add(b.plan.open)), func() { f.close(b, true) })
	}
}

// close ends a bundle that was kept open. One that was given up may see its
// stream break.
func (f *flink) close(b *bundle, well bool) {
	if !f.open[b] {
		return
	}
	delete(f.open, b)
	var err error
	if !well {
		err = errInjected
	}
	f.s.respond(b, err)
}

func (f *flink) ended(b *bundle) {
	if f.running[b.w] != b {
		f.old = slices.DeleteFunc(f.old, func(x *bundle) bool { return x == b })
		f.s.logf("bundle %d: end of a zombie, %d elements, error %v", b.n, len(b.out), b.err)
		return
	}
	delete(f.running, b.w)
	if b.err != nil {
		f.restore(fmt.Sprintf("bundle %d: %d elements gone, error %v", b.n, len(b.out), b.err))
		return
	}
	f.s.logf("bundle %d: %d elements, %d residuals", b.n, len(b.out), len(b.next))
	for _, it := range b.next {
		it.worker = b.w
		f.items = append(f.items, it)
	}
	f.unheard = append(f.unheard, b)
	f.since = append(f.since, b)
	f.snapshotIfQuiet()
	f.schedule()
}

// nextCheckpoint triggers one after the interval.
func (f *flink) nextCheckpoint() {
	attempt := f.attempt
	f.s.after(f.s.cfg.Checkpoint/2+f.s.random(f.s.cfg.Checkpoint), func() {
		if f.attempt != attempt || f.done || f.final || f.under != nil {
			return
		}
		f.trigger()
	})
}

// trigger lets the bundles end; then the state is taken.
func (f *flink) trigger() {
	f.barrier = true
	for _, b := range f.running {
		f.close(b, true)
	}
	f.snapshotIfQuiet()
}

func (f *flink) snapshotIfQuiet() {
	if f.barrier && len(f.running) == 0 {
		f.barrier = false
		f.snapshot()
		f.schedule()
	}
}

// snapshot takes the state and completes the checkpoint later, or never.
func (f *flink) snapshot() {
	s := f.s
	f.taken++
	snap := &snapshot{n: f.taken, bundles: f.since}
	f.since = nil
	for _, it := range f.items {
		snap.items = append(snap.items, it.copy())
	}
	f.under = snap
	rng := rand.New(rand.NewPCG(s.cfg.Seed, uint64(f.taken)<<8|2))
	hit := func(x Fault) bool { return rng.Float64() < s.cfg.Faults[x] && !s.quiet && !f.final }
	abort, late := hit(Abort), hit(CommitLate)
	delay := 50*time.Millisecond + time.Duration(rng.Int64N(int64(2*time.Second)))
	if late {
		delay += 35 * time.Second
	}
	s.logf("checkpoint %d: barrier, %d bundles", snap.n, len(snap.bundles))
	s.after(delay, func() {
		if f.under != snap {
			return
		}
		f.under = nil
		if abort {
			s.count(Abort)
			s.logf("checkpoint %d aborted", snap.n)
			f.since = append(snap.bundles, f.since...)
		} else {
			if late {
				s.count(CommitLate)
			}
			f.complete(snap)
		}
		f.nextCheckpoint()
		f.schedule()
	})
}

// complete makes the checkpoint the one to go back to, and finalizes every
// bundle that has ended by now, whether the checkpoint holds it or not.
func (f *flink) complete(snap *snapshot) {
	s := f.s
	s.logf("checkpoint %d complete, finalizing %d bundles", snap.n, len(f.unheard))
	f.last = snap
	for _, b := range snap.bundles {
		s.ledger.durable(b)
	}
	for _, b := range f.unheard {
		if !b.durable && len(b.out) > 0 {
			s.count(BehindBarrier)
		}
		switch {
		case !b.finalize:
		case b.plan.never:
			s.count(CommitNever)
			s.logf("bundle %d: finalization lost", b.n)
		default:
			s.finalize(b)
			if b.plan.twice {
				s.count(CommitTwice)
				s.after(s.random(2*time.Second), func() { s.finalize(b) })
			}
		}
	}
	f.unheard = nil
	if f.final {
		f.done = true
	}
}

// restore goes back to the last completed checkpoint.
func (f *flink) restore(cause string) {
	s := f.s
	s.count(Restore)
	back := "the beginning"
	if f.last != nil {
		back = fmt.Sprintf("checkpoint %d", f.last.n)
	}
	s.logf("restore %s: %s", back, cause)
	f.abandon()
	f.restarting, f.final = true, false
	if s.rng.IntN(4) == 0 {
		// The task managers and their workers are replaced.
		for _, w := range slices.Clone(s.workers) {
			if w.die() {
				s.cfg.Broker.Cut(w.id)
				s.count(Kill)
			}
			s.replace(w)
		}
	}
	shuffle := s.rng.IntN(2) == 0
	delay := time.Duration(0)
	if s.rng.IntN(2) == 0 {
		delay = s.random(3 * time.Second)
	}
	attempt := f.attempt
	s.after(delay, func() {
		if f.attempt == attempt {
			f.resume(shuffle)
		}
	})
}

func (f *flink) resume(shuffle bool) {
	s := f.s
	f.restarting = false
	if f.last == nil {
		items, err := s.firstItems()
		if err != nil {
			s.fail(err)
			return
		}
		f.items = items
	} else {
		for _, it := range f.last.items {
			f.items = append(f.items, it.copy())
		}
	}
	for _, it := range f.items {
		if old := it.worker; shuffle || old.isDead() {
			it.worker = s.pick(old)
			if it.worker != old {
				s.count(Move)
			}
		}
		for _, b := range f.old {
			if !b.w.isDead() && b.worksOn(it.slot) {
				s.count(Zombie)
			}
		}
	}
	f.nextCheckpoint()
	f.schedule()
}

func (b *bundle) worksOn(slot string) bool {
	return slices.ContainsFunc(b.items, func(it *item) bool { return it.slot == slot })
}

func (f *flink) died(w *worker) {
	mine := f.running[w] != nil || slices.ContainsFunc(f.items, func(it *item) bool { return it.worker == w })
	if mine && !f.restarting {
		f.restore(w.name + " is dead")
	}
}

func (f *flink) drain() {
	f.draining = true
	for _, b := range f.running {
		b.split(0)
	}
	f.schedule()
}

func (f *flink) over() bool { return f.done }

func (f *flink) watermark() mtime.Time {
	least := mtime.MaxTimestamp
	for _, it := range f.items {
		least = min(least, it.watermark)
	}
	for _, b := range f.running {
		for _, it := range b.items {
			least = min(least, it.watermark)
		}
	}
	return least
}
