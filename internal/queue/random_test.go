package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// A ledger is a broker that delivers again what it gets back, and checks that
// every delivery is settled once, and acknowledged only after its commit.
type ledger struct {
	t         *testing.T
	g         *rig
	next      int
	delivered map[string]string // handle -> id
	settled   map[string]Settlement
	committed map[string]bool // ids in committed bundles
	acked     map[string]bool
}

func (l *ledger) deliver(id string) Delivery[string] {
	l.next++
	d := message(id)
	d.Handle = fmt.Sprintf("%s#%d", id, l.next)
	l.delivered[d.Handle.(string)] = id
	return d
}

// collect looks at what was settled since the last time and returns what comes
// again.
func (l *ledger) collect() (again []string) {
	synctest.Wait()
	l.g.b.mu.Lock()
	defer l.g.b.mu.Unlock()
	for h, how := range l.g.b.how {
		handle := h.(string)
		if n := l.g.b.times[h]; n != 1 {
			l.t.Errorf("%s settled %d times", handle, n)
		}
		if _, seen := l.settled[handle]; seen {
			continue
		}
		l.settled[handle] = how
		id := l.delivered[handle]
		if how != Ack {
			again = append(again, id)
			continue
		}
		if !l.committed[id] {
			l.t.Errorf("%s acknowledged without a commit", handle)
		}
		l.acked[id] = true
	}
	return again
}

// TestNothingIsLostOrSettledTwice lets a runner do everything that runners do,
// at random, and at the end drains: each message was emitted in a committed
// bundle and acknowledged, each delivery settled once.
func TestNothingIsLostOrSettledTwice(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { runRandomly(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func runRandomly(t *testing.T, rnd *rand.Rand) {
	policy := commit.Policy(rnd.IntN(2))
	g := newRig(t, func(c *Config) {
		c.Policy, c.CommitTimeout, c.ParkAfter = policy, 20*time.Second, 3*time.Second
		c.Lease = func() time.Duration { return 10 * time.Second }
	})
	l := &ledger{
		t: t, g: g, delivered: map[string]string{}, settled: map[string]Settlement{},
		committed: map[string]bool{}, acked: map[string]bool{},
	}
	var open []*runnerCall // ended well, neither finalized nor given up
	var zombies []*runnerCall
	finalize := func() {
		for _, c := range open {
			for _, id := range c.got {
				l.committed[id] = true // at the latest with the next one
			}
			c.finalize()
		}
		open = nil
	}
	ids := 0
	step := func(last bool) *runnerCall {
		c := g.begin(Limits{Messages: rnd.IntN(8)})
		synctest.Wait()
		var ds []Delivery[string]
		for _, id := range l.collect() {
			ds = append(ds, l.deliver(id))
		}
		for range rnd.IntN(6) {
			if !last {
				ds = append(ds, l.deliver(fmt.Sprint("m", ids)))
				ids++
			}
		}
		if _, running, _ := g.b.state(); len(ds) > 0 && running > 0 {
			g.give(ds...)
		} else {
			for _, d := range ds { // nobody listens: it stays at the broker
				l.settled[d.Handle.(string)] = Release
				l.g.b.mu.Lock()
				l.g.b.how[d.Handle], l.g.b.times[d.Handle] = Release, 1
				l.g.b.mu.Unlock()
			}
		}
		if !last && rnd.IntN(8) == 0 { // given up by the runner while it runs
			c.Next()
			zombies = append(zombies, c)
			g.epoch--
			return c
		}
		c.read()
		if !last && rnd.IntN(6) == 0 { // the bundle fails after the call
			c.End()
			c.bundleEnds(false)
			g.epoch--
			return c
		}
		c.end()
		if c.res.Err == nil {
			open = append(open, c)
		} else if !errors.Is(c.res.Err, errFenced) {
			t.Error(c.res.Err)
		}
		return c
	}
	for range 60 {
		step(false)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			finalize()
		case 3:
			for _, z := range zombies {
				z.end()
			}
			zombies = nil
		case 4:
			time.Sleep(time.Duration(rnd.IntN(8)) * time.Second) // may park
		}
	}
	for _, z := range zombies {
		z.end()
	}
	// The end: everything comes again until it is through, then the drain.
	for range 200 {
		step(true)
		finalize()
		if len(l.acked) == ids {
			break
		}
		time.Sleep(time.Second)
	}
	g.r.Drain(time.Now().Add(time.Second))
	for i := 0; ; i++ {
		c := g.begin(Limits{}).read().end()
		open = append(open, c)
		finalize()
		if c.res.Done {
			break
		}
		if i > 100 {
			t.Fatal("the drain does not end")
		}
		time.Sleep(c.res.Resume)
	}
	if err := WaitClosed(t.Context()); err != nil {
		t.Error(err)
	}
	l.collect()
	if len(l.acked) != ids {
		t.Errorf("%d of %d messages acknowledged", len(l.acked), ids)
	}
	for h, id := range l.delivered {
		if _, ok := l.settled[h]; !ok {
			t.Errorf("delivery %s of %s was never settled", h, id)
		}
	}
	if len(g.r.table) != 0 || g.r.held.n != 0 || g.r.bytes != 0 || g.r.extras != 0 || len(g.r.calls) != 0 {
		t.Errorf("left: %d in the table, %d held, %d bytes, %d calls", len(g.r.table), g.r.held.n, g.r.bytes, len(g.r.calls))
	}
}
