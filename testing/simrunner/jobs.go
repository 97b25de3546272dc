package simrunner

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
)

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
