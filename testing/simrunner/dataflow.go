package simrunner

import (
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// dataflow commits each bundle by itself: outputs, residuals and watermark at
// once. The finalization follows if it can.
type dataflow struct {
	s        *sim
	items    []*item           // not committed
	busy     map[*item]*bundle // the newest attempt
	draining bool
}

func newDataflow(s *sim) *dataflow { return &dataflow{s: s, busy: map[*item]*bundle{}} }

func (d *dataflow) start(items []*item) {
	d.items, d.busy, d.draining = items, map[*item]*bundle{}, false
}

func (d *dataflow) schedule() {
	now := time.Now()
	for _, it := range slices.Clone(d.items) {
		if d.busy[it] != nil {
			continue
		}
		if d.draining && !it.truncated {
			if it = d.truncate(it); it == nil {
				continue
			}
		}
		if it.ready.After(now) {
			d.s.wake(it)
			continue
		}
		if it.worker.isDead() {
			it.worker = d.s.pick(it.worker)
		}
		d.launch(it, it.worker)
	}
}

func (d *dataflow) truncate(it *item) *item {
	if it.worker.isDead() {
		it.worker = d.s.pick(it.worker)
	}
	left := d.s.truncate(it)
	i := slices.Index(d.items, it)
	if left == nil {
		d.s.logf("item %s truncated to nothing", it.slot)
		d.items = slices.Delete(d.items, i, i+1)
		return nil
	}
	left.ready = time.Now()
	d.items[i] = left
	return left
}

// launch starts an attempt at an item. Only the newest one can be committed.
func (d *dataflow) launch(it *item, w *worker) {
	s := d.s
	b := s.newBundle(w, it)
	d.busy[it] = b
	s.logf("bundle %d: item %s on %s, watermark %v", b.n, it.slot, w.name, it.watermark)
	if b.plan.zombie > 0 {
		s.after(b.plan.zombie, func() { d.again(it, b) })
	}
	s.run(b)
}

// again makes a second attempt while the first still runs.
func (d *dataflow) again(it *item, b *bundle) {
	if d.busy[it] != b || b.stale || b.w.isDead() {
		return
	}
	b.mu.Lock()
	running := b.cur != nil
	b.mu.Unlock()
	if !running {
		return
	}
	w := b.w
	if b.plan.elsewhere {
		w = d.s.pick(w)
	}
	d.s.count(Zombie)
	d.s.logf("bundle %d is a zombie from now on", b.n)
	b.stale = true
	d.launch(it, w)
}

func (d *dataflow) processed(b *bundle, err error) {
	if err == nil && b.plan.failAfter {
		d.s.count(FailAfterElement)
		err = errInjected
	}
	d.s.respond(b, err)
}

func (d *dataflow) ended(b *bundle) {
	s, it := d.s, b.origin
	if d.busy[it] != b {
		s.logf("bundle %d: end of a zombie, %d elements, error %v", b.n, len(b.out), b.err)
		return
	}
	refused := b.err == nil && b.plan.refuse
	if refused {
		s.count(RefuseCommit)
	}
	if b.err != nil || refused {
		s.logf("bundle %d: %d elements gone, refused %v, error %v", b.n, len(b.out), refused, b.err)
		delete(d.busy, it)
		if b.plan.elsewhere || it.worker.isDead() {
			it.worker = s.pick(b.w)
		}
		it.ready = time.Now().Add(s.random(2 * time.Second))
		d.schedule()
		return
	}
	s.after(s.random(300*time.Millisecond), func() { d.commit(it, b) })
}

func (d *dataflow) commit(it *item, b *bundle) {
	s := d.s
	if d.busy[it] != b {
		return // given up meanwhile
	}
	delete(d.busy, it)
	i := slices.Index(d.items, it)
	d.items = slices.Delete(d.items, i, i+1)
	s.ledger.durable(b)
	for _, res := range b.next {
		res.worker = b.w
		if b.plan.move {
			if w := s.pick(b.w); w != b.w {
				s.count(Move)
				res.worker = w
			}
		}
		d.items = append(d.items, res)
	}
	s.logf("bundle %d: committed, %d elements, %d residuals", b.n, len(b.out), len(b.next))
	d.finalization(b)
	d.schedule()
}

func (d *dataflow) finalization(b *bundle) {
	s, p := d.s, b.plan
	if !b.finalize {
		return
	}
	delay := s.random(200 * time.Millisecond)
	switch {
	case p.never:
		s.count(CommitNever)
		s.logf("bundle %d: finalization lost", b.n)
		return
	case p.late > 0:
		s.count(CommitLate)
		delay = p.late
	}
	s.after(delay, func() { s.logf("bundle %d: finalize", b.n); s.finalize(b) })
	if p.twice {
		s.count(CommitTwice)
		s.after(delay+s.random(2*time.Second), func() { s.finalize(b) })
	}
}

func (d *dataflow) died(w *worker) {
	// A bundle of the dead worker that had been processed waits for an answer
	// that comes in any case; nothing is to be done.
}

func (d *dataflow) drain() {
	d.draining = true
	for _, b := range d.busy {
		b.split(0)
	}
	d.schedule()
}

func (d *dataflow) over() bool { return len(d.items) == 0 }

func (d *dataflow) watermark() mtime.Time {
	least := mtime.MaxTimestamp
	for _, it := range d.items {
		least = min(least, it.watermark)
	}
	return least
}
