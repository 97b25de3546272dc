package simrunner

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A ledger holds what became of each message, and what was wrong with it.
type ledger struct {
	mode   Mode
	began  time.Time
	limit  time.Duration // to settle a delivery
	commit time.Duration // CommitTimeout

	mu       sync.Mutex
	msgs     map[string]*message
	open     map[string]delivery
	waiting  []*bundle // ended, finalized once, not known to be committed
	undone   int       // published and not durable
	dups     int
	lateDup  int // late redeliveries and duplicates
	longest  time.Duration
	problems map[string]int
	first    map[string]string // the first example of each problem
}

// A message is one that was published.
type message struct {
	deliveries int
	open       int
	acked      bool
	disturbed  bool // delivered twice at once or once more, or taken back by the broker
	durable    int
	by         []place
	past       []moment
}

// A place is where a message stands in the durable output.
type place struct {
	b    *bundle
	slot string
}

// A moment is something that happened to a message, for who has to find out.
type moment struct {
	at     time.Duration // since the begin of the run
	what   string
	worker string
	bundle int
}

func (l *ledger) note(m *message, what, worker string, bundle int) {
	m.past = append(m.past, moment{time.Since(l.began), what, worker, bundle})
}

// story tells what happened to a message.
func (m *message) story() string {
	var b strings.Builder
	for _, x := range m.past {
		fmt.Fprintf(&b, "\n    %10.3f  %s", x.at.Seconds(), x.what)
		if x.bundle > 0 {
			fmt.Fprintf(&b, " bundle %d", x.bundle)
		}
		if x.worker != "" {
			fmt.Fprintf(&b, " %s", x.worker)
		}
	}
	return b.String()
}

type delivery struct {
	m      *message
	at     time.Time
	worker string
}

func newLedger(cfg Config) *ledger {
	return &ledger{
		mode: cfg.Mode, began: time.Now(), limit: cfg.CommitTimeout + cfg.SettleSlack, commit: cfg.CommitTimeout,
		msgs: map[string]*message{}, open: map[string]delivery{},
		problems: map[string]int{}, first: map[string]string{},
	}
}

// problem counts what is wrong. The caller locks.
func (l *ledger) problem(kind, format string, args ...any) {
	l.problems[kind]++
	if l.problems[kind] == 1 {
		l.first[kind] = fmt.Sprintf(format, args...)
	}
}

func (l *ledger) published(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.note(l.message(id), "published", "", 0)
		l.undone++
	}
}

// message is the one of that id. The broker may hand a message out before its
// publisher has told us about it.
func (l *ledger) message(id string) *message {
	m := l.msgs[id]
	if m == nil {
		m = &message{}
		l.msgs[id] = m
	}
	return m
}

// event is what the broker reports.
func (l *ledger) event(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if e.Kind == Delivered {
		m := l.message(e.ID)
		m.deliveries++
		m.open++
		m.disturbed = m.disturbed || m.open > 1 || m.acked
		l.open[e.Delivery] = delivery{m, now, e.Worker}
		l.note(m, e.Kind.String(), e.Worker, 0)
		return
	}
	if e.Kind == Refused {
		l.problem("settled by another instance", "%s settled %s, which it had not received:%s", e.Worker, e.ID, l.message(e.ID).story())
		return
	}
	d, ok := l.open[e.Delivery]
	if !ok {
		return
	}
	delete(l.open, e.Delivery)
	d.m.open--
	l.note(d.m, e.Kind.String(), d.worker, 0)
	age := now.Sub(d.at)
	l.longest = max(l.longest, age)
	if age > l.limit {
		l.problem("settled too late", "message %s was held for %v by %s:%s", e.ID, age, d.worker, d.m.story())
	}
	switch e.Kind {
	case Lapsed:
		d.m.disturbed = true
	case Acked:
		if d.m.durable == 0 {
			l.problem("acknowledged before its output was durable", "message %s:%s", e.ID, d.m.story())
		}
		d.m.acked = true
	}
}

// emitted notes that a message left the source, and tells whether it had been
// delivered once.
func (l *ledger) emitted(id string, b *bundle) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.msgs[id]
	if m == nil {
		l.problem("emitted and never published", "message %q", id)
		return false
	}
	l.note(m, "emitted in", b.w.name, b.n)
	return m.deliveries == 1
}

// durable takes a bundle's outputs into the durable output.
func (l *ledger) durable(b *bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.durable = true
	for _, o := range b.out {
		m := l.message(o.id)
		late := o.at < b.watermark
		switch {
		case late && o.first && m.durable == 0:
			l.problem("late", "message %s of time %v, watermark %v, bundle %d:%s", o.id, o.at, b.watermark, b.n, m.story())
		case late:
			l.lateDup++
		}
		l.note(m, "durable with", "", b.n)
		m.durable++
		m.by = append(m.by, place{b, o.slot})
		if m.durable == 1 {
			l.undone--
		} else {
			l.dups++
		}
	}
}

// heard notes that a finalization reached a worker that lives. From then on (or
// from the next one of its slot on, where only that proves anything) the source
// knows that the bundle is committed.
func (l *ledger) heard(b *bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !b.heard.IsZero() {
		return
	}
	b.heard = now
	b.committed = map[string]time.Time{}
	if l.mode == Dataflow {
		b.vouched(b, now)
		return
	}
	for _, x := range l.waiting {
		if x.w == b.w && x.heard.Before(b.ended) {
			x.vouched(b, now)
		}
	}
	l.waiting = append(l.waiting, b)
}

// vouched notes that a finalization of by proves that b is committed, in the
// slots that both have.
func (b *bundle) vouched(by *bundle, now time.Time) {
	for _, it := range by.items {
		if b.worksOn(it.slot) && b.committed[it.slot].IsZero() && !b.left[it.slot] {
			b.committed[it.slot] = now
		}
	}
}

// begun notes that a worker goes on with slots. Bundles of another worker that
// wait to be vouched for in these do so in vain from then on: where that one
// comes back, it cannot know how far the job had gone back in the meantime.
func (l *ledger) begun(b *bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.waiting {
		for _, it := range b.items {
			if x.w != b.w && x.worksOn(it.slot) {
				if x.left == nil {
					x.left = map[string]bool{}
				}
				x.left[it.slot] = true
			}
		}
	}
}

// undurable is how many messages are not in the durable output.
func (l *ledger) undurable() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.undone
}

// close makes the checks that need the end.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for id, m := range l.msgs {
		switch {
		case m.durable == 0 && m.acked:
			l.problem("lost", "message %s was acknowledged and is not in the output:%s", id, m.story())
		case m.durable == 0:
			l.problem("missing", "message %s is not in the output:%s", id, m.story())
		case !m.acked:
			l.problem("not acknowledged", "message %s is in the output and still in the subscription:%s", id, m.story())
		}
		if n := m.settled(l.commit); n > 1 && !m.disturbed {
			l.problem("duplicate without a reason", "message %s is %d times in the output, %d of them committed in time:%s", id, m.durable, n, m.story())
		}
	}
	for _, d := range l.open {
		if age := now.Sub(d.at); age > l.limit {
			l.problem("settled too late", "a delivery to %s was held for %v when the run ended:%s", d.worker, age, d.m.story())
		}
	}
}

// settled counts the bundles that the source knew in time to be committed.
func (m *message) settled(limit time.Duration) (n int) {
	for _, p := range m.by {
		at := p.b.committed[p.slot]
		if !at.IsZero() && at.Sub(p.b.ended) < limit-time.Second && !p.b.w.diedBefore(at.Add(30*time.Second)) {
			n++
		}
	}
	return n
}
