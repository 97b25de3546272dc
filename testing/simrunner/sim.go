package simrunner

import (
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

// newBundle makes a bundle of items for a worker.
func (s *sim) newBundle(w *worker, items ...*item) *bundle {
	s.drawn++
	b := &bundle{
		n: s.drawn, inst: w.nextInstruction(), src: s.src, w: w, origin: items[0], plan: s.draw(s.drawn),
		started: time.Now(), watermark: s.runner.watermark(),
	}
	for _, it := range items {
		// A zombie goes on with its item while the runner deals with it anew.
		b.items = append(b.items, it.copy())
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
