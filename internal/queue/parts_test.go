package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
)

func TestFifoKeepsOrderAndForgets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var f fifo[int]
	var want, taken []*entry[int]
	for range 3000 {
		switch n := rnd.IntN(20); rnd.IntN(5) {
		case 0, 1:
			for range n {
				e := &entry[int]{}
				f.push(e)
				want = append(want, e)
			}
		case 2, 3:
			for range n {
				e := f.pop()
				if e == nil {
					break
				}
				taken = append(taken, e)
			}
		case 4: // some of what was taken last comes back
			n = min(n, len(taken), 10)
			back := taken[len(taken)-n:]
			f.unpop(back)
			taken = taken[:len(taken)-n]
		}
		if f.len()+len(taken) != len(want) || !slices.Equal(slices.Concat(taken, f.all()), want) {
			t.Fatal("out of order")
		}
		if len(taken) > 50 { // gone for good
			want, taken = want[len(taken):], nil
		}
		for _, e := range f.a[:f.head] {
			if e != nil {
				t.Fatal("holds what was taken out")
			}
		}
		if f.len() == 0 && cap(f.a) > 4096 {
			t.Fatalf("room for %d entries", cap(f.a))
		}
	}
	f.clear()
	if f.len() != 0 || f.pop() != nil {
		t.Error("not empty")
	}
}

// An entry that somebody still holds must not hold those that came after it.
func TestRemovedEntriesForgetTheirNeighbors(t *testing.T) {
	var l list[int]
	es := make([]entry[int], 5)
	for i := range es {
		l.add(&es[i])
	}
	for _, i := range []int{2, 0, 4, 1, 3} {
		l.remove(&es[i])
		if es[i].prev != nil || es[i].next != nil {
			t.Errorf("entry %d holds its neighbors", i)
		}
	}
	if l.n != 0 || l.first != nil || l.last != nil {
		t.Errorf("left %+v", l)
	}
}

func TestLimitFollowsSlowBundlesOnly(t *testing.T) {
	var p rhythm
	now := at(0)
	bundle := func(n int, busy, waited, took time.Duration) {
		began := now
		now = now.Add(busy + waited + took)
		p.committed(began, now.Add(-took), waited, took, n, now)
	}
	bundle(1, time.Millisecond, 5*time.Second, 10*time.Second) // a slow stream, a slow commit
	if p.limit != 0 {
		t.Fatalf("limit %d though bundles are quick", p.limit)
	}
	bundle(1000, 20*time.Second, 0, time.Second)
	if p.limit != 100 {
		t.Errorf("limit %d, want what takes two seconds", p.limit)
	}
	p.committed(now.Add(-30*time.Second), now, 0, time.Second, 1000, now) // began before
	if p.limit != 100 {
		t.Errorf("limit %d after a bundle of before", p.limit)
	}
	bundle(3, time.Second/2, 0, 0)
	if p.limit != 100 {
		t.Errorf("limit %d after a bundle that did not reach it", p.limit)
	}
	for range 5 {
		bundle(p.limit, time.Duration(p.limit)*time.Millisecond, 0, 0)
	}
	if p.limit < 1000 || p.limit > 2000 {
		t.Errorf("limit %d, want between one and two seconds' worth", p.limit)
	}
	bundle(10, time.Hour, 0, 0)
	if p.limit != minPerCall {
		t.Errorf("limit %d, want the least", p.limit)
	}
}

// Two instances of a DoFn report one reader; a third reports its successor.
func TestReportsAddUpOverInstancesAndReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := metrics.SetPTransformID(metrics.SetBundleID(t.Context(), "b"), "t")
		one, two := NewReporter("test"), NewReporter("test")
		received := func() int64 {
			var n int64
			err := metrics.Extractor{SumInt64: func(l metrics.Labels, v int64) {
				if l.Name() == "received" {
					n = v
				}
			}}.ExtractFrom(metrics.GetStore(ctx))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		g := newRig(t, nil)
		g.begin(Limits{}).read().end()
		g.deliver("a", "b")
		Report(ctx, one, g.r)
		Report(ctx, two, g.r)
		if n := received(); n != 2 {
			t.Errorf("received %d, want 2", n)
		}
		if err := g.r.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g = newRig(t, nil)
		g.begin(Limits{}).read().end()
		g.deliver("c")
		Report(ctx, one, g.r)
		if n := received(); n != 3 {
			t.Errorf("received %d, want 3", n)
		}
	})
}
