package simrunner

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
)

// A Result is what a run found.
type Result struct {
	Mode Mode
	Seed uint64
	// Published, Durable and Duplicates count messages; Durable each once.
	Published, Durable, Duplicates int
	// LateAgain counts redelivered messages that were behind the watermark.
	LateAgain int
	// Bundles is how many bundles were run, Simulated how long the run took.
	Bundles   int
	Simulated time.Duration
	// LongestHeld is the longest time from a delivery to its settlement.
	LongestHeld time.Duration
	// WatermarkLag is how far the watermark was behind the clock when the run
	// ended, after Config.Idle.
	WatermarkLag time.Duration
	// Faults counts those that struck, by name, the broker's included.
	Faults map[string]int
	// Problems says what is wrong, a line for each kind.
	Problems []string
	// Log is the schedule: what was done, in order, by simulated time.
	Log []string
}

// Err is nil when nothing is wrong, and else tells everything with the schedule.
func (r *Result) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s, seed %d:\n  %s\nschedule:\n  %s", r.Mode, r.Seed,
		strings.Join(r.Problems, "\n  "), strings.Join(r.Log, "\n  "))
}

// A runner is what differs between the modes. Its methods are called by the
// simulation's loop only.
type runner interface {
	// start begins a job with its first items.
	start(items []*item)
	// schedule starts the bundles that can be started.
	schedule()
	// processed: the bundle's elements are through, or it has failed.
	processed(b *bundle, err error)
	// ended: the runner has the bundle's answer.
	ended(b *bundle)
	// died: a worker is dead.
	died(w *worker)
	// drain asks for the end of the job; it is over when over says so.
	drain()
	over() bool
	// watermark is the source's output watermark.
	watermark() mtime.Time
}

// A sim is one run.
type sim struct {
	cfg     Config
	ctx     context.Context
	rng     *rand.Rand // of the loop
	ledger  *ledger
	codecs  codecs
	src     *source
	runner  runner
	began   time.Time
	number  int64 // of the run in the process
	workers []*worker
	made    int // workers ever
	jobs    int
	drawn   int
	quiet   bool // no more faults
	lag     time.Duration

	hookSlot chan struct{}
	bundles  sync.WaitGroup
	pending  int // bundles whose end the loop has not seen
	striking map[int]func()
	posts    chan func()
	later    laterQueue
	order    int

	mu     sync.Mutex // guards what bundles count and log
	counts map[string]int
	log    []string
	err    error
}

var runs atomic.Int64

// Run makes one run. It must be called inside a testing/synctest bubble. An
// error says that the run could not be made, not that it found something.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.withDefaults()
	if cfg.Source == nil || cfg.ID == nil || cfg.Broker == nil {
		return nil, errors.New("simrunner: Source, ID and Broker are required")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &sim{
		cfg: cfg, ctx: ctx, began: time.Now(), number: runs.Add(1),
		rng:    rand.New(rand.NewPCG(cfg.Seed, 0)),
		codecs: codecs{}, counts: map[string]int{},
		hookSlot: make(chan struct{}, 1), posts: make(chan func(), 64), striking: map[int]func(){},
	}
	s.ledger = newLedger(cfg)
	switch cfg.Mode {
	case Flink:
		s.runner = newFlink(s)
	case Dataflow:
		s.runner = newDataflow(s)
	default:
		return nil, fmt.Errorf("simrunner: no mode %q", cfg.Mode)
	}
	cfg.Broker.Watch(s.ledger.event)
	defer cfg.Broker.Watch(nil)
	for range cfg.Workers {
		s.hire()
	}
	s.newJob()
	s.schedulePublishing()
	s.scheduleBrokerFaults()
	if cfg.Faults[Drain] > s.rng.Float64() {
		at := cfg.Duration/4 + s.random(cfg.Duration/2)
		s.after(at, func() { s.count(Drain); s.drain(true) })
	}
	s.loop()
	s.bundles.Wait()
	if s.err != nil {
		return nil, s.err
	}
	s.ledger.close()
	return s.result(), nil
}

// schedulePublishing spreads the messages over the duration, in bursts with
// quiet times between.
func (s *sim) schedulePublishing() {
	left, at := s.cfg.Messages, time.Duration(0)
	for left > 0 {
		n := min(1+s.rng.IntN(max(s.cfg.Messages/50, 1)), left)
		left -= n
		s.after(at, func() {
			ids, err := s.cfg.Broker.Publish(n)
			if err != nil {
				s.fail(fmt.Errorf("publishing: %w", err))
			}
			s.ledger.published(ids)
		})
		step := s.random(2 * s.cfg.Duration / 100)
		if s.rng.IntN(25) == 0 {
			step += s.random(15 * time.Second) // a quiet time
		}
		at = min(at+step, s.cfg.Duration)
	}
	s.after(s.cfg.Duration, s.calm)
}

func (s *sim) scheduleBrokerFaults() {
	faults := s.cfg.Broker.Faults()
	if len(faults) == 0 {
		return
	}
	n := int(s.cfg.BrokerFaults)
	if s.rng.Float64() < s.cfg.BrokerFaults-float64(n) {
		n++
	}
	for range n {
		f := faults[s.rng.IntN(len(faults))]
		length := time.Second + s.random(5*time.Second)
		seed := s.rng.Uint64()
		s.after(s.random(s.cfg.Duration), func() { s.strike(f, seed, length) })
	}
}

// strike begins a fault of the broker and ends it later.
func (s *sim) strike(f BrokerFault, seed uint64, length time.Duration) {
	s.countName(f.Name)
	s.logf("broker: %s", f.Name)
	end := f.Strike(rand.New(rand.NewPCG(seed, 0)))
	if end == nil {
		return
	}
	s.order++
	n := s.order
	s.striking[n] = end
	s.after(length, func() {
		if s.striking[n] != nil {
			delete(s.striking, n)
			s.logf("broker: end of %s", f.Name)
			end()
		}
	})
}

// calm ends the faults. From here on everything has to be delivered and
// settled within the time that the source was given.
func (s *sim) calm() {
	s.quiet = true
	s.logf("no more faults")
	for n, end := range s.striking {
		delete(s.striking, n)
		end()
	}
	give := time.Now().Add(3*s.cfg.CommitTimeout + 2*s.cfg.SettleSlack)
	var look func()
	look = func() {
		if s.ledger.undurable() == 0 && s.cfg.Broker.Unsettled() == 0 || time.Now().After(give) {
			s.logf("end: %d not in the output, %d not acknowledged", s.ledger.undurable(), s.cfg.Broker.Unsettled())
			s.after(s.cfg.Idle, func() {
				s.lag = time.Since(s.runner.watermark().ToTime())
				s.drain(false)
			})
			return
		}
		s.after(time.Second, look)
	}
	s.after(time.Second, look)
}

// drain ends the job; again starts the next one.
func (s *sim) drain(again bool) {
	s.logf("draining")
	s.runner.drain()
	give := time.Now().Add(2*s.cfg.CommitTimeout + s.cfg.SettleSlack)
	var look func()
	look = func() {
		if !s.runner.over() {
			if time.Now().After(give) {
				s.ledger.mu.Lock()
				s.ledger.problem("drain does not end", "begun %s", stamp(give.Add(-2*s.cfg.CommitTimeout-s.cfg.SettleSlack)))
				s.ledger.mu.Unlock()
				s.stop()
				return
			}
			s.after(200*time.Millisecond, look)
			return
		}
		s.logf("job %d is over", s.jobs)
		if !again {
			s.stop()
			return
		}
		s.changeWorkers()
		s.newJob()
	}
	s.after(0, look)
}

// changeWorkers gives the next job new workers. The old processes are gone, or
// live on, silent.
func (s *sim) changeWorkers() {
	old := s.workers
	s.workers = nil
	if s.rng.IntN(2) == 0 {
		for _, w := range old {
			w.die()
			s.cfg.Broker.Cut(w.id)
		}
	}
	for range s.cfg.Workers {
		s.hire()
	}
}

// newJob builds the source's pipeline and starts it.
func (s *sim) newJob() {
	s.jobs++
	src, err := newSource(s.cfg.Source, s.codecs)
	if err != nil {
		s.fail(err)
		return
	}
	s.src = src
	hooks.SerializeHooksToOptions()
	hooks.DeserializeHooksFromOptions(s.ctx)
	items, err := s.firstItems()
	if err != nil {
		s.fail(err)
		return
	}
	s.logf("job %d: %d items", s.jobs, len(items))
	s.runner.start(items)
	s.runner.schedule()
}

// firstItems runs what is before the source and the initial splits.
func (s *sim) firstItems() ([]*item, error) {
	w := s.workers[0]
	ctx := w.context(s.ctx)
	elems, err := s.src.prepare(ctx, func(fn []byte) []byte { return s.cfg.Broker.Dial(w.id, fn) })
	if err != nil {
		return nil, err
	}
	fn, err := w.instance(ctx, s.src)
	if err != nil {
		return nil, err
	}
	var items []*item
	for _, e := range elems {
		its, err := s.src.initial(ctx, fn, e)
		if err != nil {
			return nil, err
		}
		items = append(items, its...)
	}
	w.giveBack(s.src, fn)
	for i, it := range items {
		it.slot = fmt.Sprintf("%d.%d", s.jobs, i)
		it.worker = s.workers[i%len(s.workers)]
		it.ready = time.Now()
	}
	return items, nil
}

// newBundle makes a bundle of items for a worker.
func (s *sim) newBundle(w *worker, items ...*item) *bundle {
	s.drawn++
	b := &bundle{
		n: s.drawn, inst: w.nextInstruction(), src: s.src, w: w, items: items, plan: s.draw(s.drawn),
		started: time.Now(), watermark: s.runner.watermark(),
	}
	if p := b.plan; p.cut > 0 {
		s.after(p.cut, func() { s.splitRunning(b, 0, CheckpointCall) })
	}
	if p := b.plan; p.split > 0 {
		s.after(p.split, func() { s.splitRunning(b, p.fraction, SplitCall) })
	}
	return b
}

func (s *sim) splitRunning(b *bundle, fraction float64, f Fault) {
	asked, done := b.split(fraction)
	if asked {
		s.count(f)
		s.logf("bundle %d: split at %.2f, residual %v", b.n, fraction, done)
	}
}

// hire adds a worker.
func (s *sim) hire() *worker {
	s.made++
	w := &worker{name: fmt.Sprintf("w%d", s.made), broker: s.cfg.Broker, spare: map[*source][]*dofn{}}
	// No two workers of a process have the same id, as on a real runner: what a
	// source keeps by worker may outlive a run.
	w.id = fmt.Sprintf("run%d-%s", s.number, w.name)
	s.workers = append(s.workers, w)
	return w
}

// kill ends a worker at once: its connections are cut before anything else of
// it can happen. It must not be called by the loop.
func (s *sim) kill(w *worker) {
	if !w.die() {
		return
	}
	s.cfg.Broker.Cut(w.id)
	s.count(Kill)
	s.logf("%s is killed", w.name)
	s.post(func() { s.replace(w); s.runner.died(w) })
}

// replace hires a worker for one that is dead.
func (s *sim) replace(w *worker) {
	if i := slices.Index(s.workers, w); i >= 0 {
		s.workers = slices.Delete(s.workers, i, i+1)
		s.hire()
	}
}

// truncate leaves of an item what a drain leaves, nil if nothing.
func (s *sim) truncate(it *item) *item {
	ctx := it.worker.context(s.ctx)
	fn, err := it.worker.instance(ctx, s.src)
	if err == nil {
		it, err = s.src.truncate(ctx, fn, it)
	}
	if err != nil {
		s.fail(err)
		return nil
	}
	return it
}

func (s *sim) random(d time.Duration) time.Duration { return time.Duration(s.rng.Int64N(int64(d) + 1)) }

// pick is one of the workers, another one than w if it may be.
func (s *sim) pick(not *worker) *worker {
	w := s.workers[s.rng.IntN(len(s.workers))]
	for w == not && len(s.workers) > 1 {
		w = s.workers[s.rng.IntN(len(s.workers))]
	}
	return w
}

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

func (s *sim) count(f Fault) { s.countName(string(f)) }

func (s *sim) countName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[name]++
}

func (s *sim) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%10.3f  ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *sim) result() *Result {
	l := s.ledger
	r := &Result{
		Mode: s.cfg.Mode, Seed: s.cfg.Seed, Published: s.cfg.Messages, Durable: s.cfg.Messages - l.undone,
		Duplicates: l.dups, LateAgain: l.lateDup, Bundles: s.drawn, Simulated: time.Since(s.began),
		LongestHeld: l.longest, WatermarkLag: s.lag, Faults: s.counts, Log: s.log,
	}
	for kind, n := range l.problems {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %d, first: %s", kind, n, l.first[kind]))
	}
	slices.Sort(r.Problems)
	return r
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

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
