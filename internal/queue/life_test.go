package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

func (b *fakeBroker) state() (receives, running, closed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.receives, b.running, b.closed
}

func TestDrainEmitsTheBufferAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{Messages: 2})
		synctest.Wait()
		g.deliver("a", "b", "c")
		c.read()
		lift := DrainAll(time.Minute)
		c.end()
		if c.res.Done {
			t.Error("done before the buffer was emitted")
		}
		synctest.Wait()
		if _, running, _ := g.b.state(); running != 0 {
			t.Error("still receiving")
		}
		last := g.begin(Limits{Length: time.Hour, Gather: true, Every: time.Hour}).read().end()
		wantIDs(t, last.got, "c")
		if !last.res.Done {
			t.Errorf("result %+v", last.res)
		}
		if w := g.est.CurrentWatermark(); w.Year() < 200_000 {
			t.Errorf("watermark %v, want the end of time", w)
		}
		c.finalize()
		last.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-b", "h-c"}})
		if err := WaitClosed(t.Context()); err != nil {
			t.Error(err)
		}
		if _, _, closed := g.b.state(); closed != 1 {
			t.Errorf("broker closed %d times", closed)
		}
		if s := Totals(); s.Acked != 3 || s.Readers != 0 || s.Unsettled != 0 {
			t.Errorf("totals %+v", s)
		}

		// A reader opened later ends at once, one after the lift does not.
		late := newRig(t, func(c *Config) { c.Key = "late" })
		if res := late.begin(Limits{}).read().end().res; !res.Done {
			t.Errorf("a reader opened during the drain: %+v", res)
		}
		lift()
		free := newRig(t, func(c *Config) { c.Key = "free" })
		if res := free.begin(Limits{}).read().end().res; res.Done {
			t.Errorf("a reader opened after the lift: %+v", res)
		}
	})
}

func TestDrainReleasesWhatIsNotEmittedInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{Messages: 1})
		synctest.Wait()
		g.deliver("a", "b", "c")
		c.read()
		g.r.Drain(time.Now())
		c.end()
		if !c.res.Done {
			t.Errorf("result %+v", c.res)
		}
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a"}, "release": {"h-b", "h-c"}})
		if err := WaitClosed(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The runner needs a later bundle to vouch for the last messages, so the source
// goes on until there was one.
func TestDrainUnderAtNextFinalizeWaitsForTheVoucher(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.Policy = commit.AtNextFinalize })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		g.r.Drain(time.Now().Add(time.Second))
		c.read().end()
		wantIDs(t, c.got, "a")
		if c.res.Done {
			t.Fatal("done with messages that nobody can vouch for")
		}
		calls, began := []*runnerCall{}, time.Now()
		for checkpoint := began.Add(10 * time.Second); time.Since(began) < time.Minute; {
			n := g.begin(Limits{}).read().end()
			calls = append(calls, n)
			if n.res.Done {
				break
			}
			if len(calls) > 3 && n.res.Resume < minResume {
				t.Fatalf("spins: resumes in %v", n.res.Resume)
			}
			time.Sleep(n.res.Resume)
			if time.Now().After(checkpoint) {
				checkpoint = checkpoint.Add(10 * time.Second)
				if c != nil {
					c.finalize()
					c = nil
				}
				for _, x := range calls {
					x.finalize()
				}
			}
		}
		if d := time.Since(began); d < 19*time.Second || d > 22*time.Second {
			t.Errorf("done after %v, want at the second checkpoint", d)
		}
		if err := WaitClosed(t.Context()); err != nil {
			t.Error(err)
		}
		g.wantSettled(map[string][]string{"ack": {"h-a"}})
	})
}

func TestLastBundleWaitsForItsAcknowledgements(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.b.settling = make(chan struct{})
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		c.Finish(time.Second)
		c.read().end()
		if !c.res.Done {
			t.Fatalf("result %+v", c.res)
		}
		time.AfterFunc(2*time.Second, func() { close(g.b.settling) })
		began := time.Now()
		c.finalize()
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("the runner was answered after %v, want when the acknowledgement was out (2s)", d)
		}
		g.wantSettled(map[string][]string{"ack": {"h-a"}})
	})
}

func TestUnvisitedReaderReleasesThenCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closed := false
		g := newRig(t, func(c *Config) { c.ParkAfter, c.CloseAfter = time.Second, 5*time.Second })
		g.r.OnClose = func() { closed = true }
		for range 10 { // resumes every two seconds
			g.begin(Limits{}).read().end()
			time.Sleep(2 * time.Second)
		}
		c := g.begin(Limits{Messages: 1})
		g.deliver("a", "b")
		c.read().end()
		time.Sleep(5 * time.Second)
		g.wantSettled(nil)
		time.Sleep(2 * time.Second) // three resume times have passed
		g.wantSettled(map[string][]string{"release": {"h-b"}})
		if _, running, _ := g.b.state(); running != 0 {
			t.Error("parked, but still receiving")
		}
		time.Sleep(time.Minute)
		if closed {
			t.Error("closed with an emitted message whose fate is not known")
		}
		c.finalize()
		time.Sleep(6 * time.Second)
		if _, _, n := g.b.state(); n != 1 || !closed {
			t.Errorf("broker closed %d times, left the registry: %v", n, closed)
		}
		g.wantSettled(map[string][]string{"ack": {"h-a"}, "release": {"h-b"}})
	})
}

func TestVisitAfterParkingGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.ParkAfter = time.Second })
		g.begin(Limits{}).read().end()
		time.Sleep(2 * time.Second)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		wantIDs(t, c.read().end().got, "a")
		if n, _, _ := g.b.state(); n != 2 {
			t.Errorf("received %d times, want 2", n)
		}
	})
}

// A slowBroker takes a second to stop receiving.
type slowBroker struct{ *fakeBroker }

func (b slowBroker) Receive(ctx context.Context, r *Reader[string]) error {
	err := b.fakeBroker.Receive(ctx, r)
	time.Sleep(time.Second)
	return err
}

// The call begins while the reader waits for its Receive to end. It takes it for
// running; the parking must start it again.
func TestVisitDuringParkingReceives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := slowBroker{newFakeBroker()}
		g := &rig{t: t, b: b.fakeBroker, est: NewEstimator(InitialState()), worker: fmt.Sprint(rigs.Add(1))}
		g.r = New(Config{Key: t.Name(), MaxMessages: 10, MaxBytes: 1000, ParkAfter: time.Second}, b)
		defer g.r.Close()
		g.begin(Limits{}).read().end()
		time.Sleep(1500 * time.Millisecond)
		c := g.begin(Limits{Length: time.Minute, Quiet: Immediate})
		time.AfterFunc(2*time.Second, func() { b.in <- []Delivery[string]{message("a")} })
		wantIDs(t, c.read().end().got, "a")
	})
}

func TestCallOnAClosedReaderIsOverAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		if err := g.r.Close(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c := g.begin(Limits{Length: time.Hour, Gather: true, Every: time.Hour}).read().end()
		if d := time.Since(began); d != 0 || c.res.Resume != 0 || c.res.Err != nil || c.res.Done {
			t.Errorf("took %v, result %+v", d, c.res)
		}
		if n, _, _ := g.b.state(); n != 0 {
			t.Error("a closed reader receives")
		}
	})
}

func TestCloseEndsAWaitingCallAndGivesBackEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		c.read().end()
		waiting := g.begin(Limits{Length: time.Hour, Messages: 1})
		g.deliver("c", "d")
		waiting.read() // takes c
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := g.r.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		g.wantSettled(map[string][]string{"nack": {"h-a", "h-b", "h-c"}, "release": {"h-d"}})
		waiting.end()
		c.finalize()
		waiting.finalize()
		g.wantSettled(map[string][]string{"nack": {"h-a", "h-b", "h-c"}, "release": {"h-d"}})
		for _, h := range []string{"h-a", "h-b", "h-c", "h-d"} {
			if n := g.b.settlements(h); n != 1 {
				t.Errorf("%v settled %d times", h, n)
			}
		}
		if _, _, n := g.b.state(); n != 1 {
			t.Errorf("broker closed %d times", n)
		}
	})
}

func TestCloseAllWithABrokerThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.b.settling = make(chan struct{})
		c := g.begin(Limits{Messages: 1})
		synctest.Wait()
		g.deliver("a")
		c.read().end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := CloseAll(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		began := time.Now()
		if err := g.r.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != closeFlush-time.Second {
			t.Errorf("closing took %v more", d)
		}
	})
}

func TestWaitClosedEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		newRig(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := WaitClosed(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// Opening locks the registry, then the process, then a reader; closing must not
// take them the other way round.
func TestOpeningClosingAndDrainingTogether(t *testing.T) {
	resetProcess()
	defer resetProcess()
	var reg Registry[*Reader[string]]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					r := reg.Get("k", func() *Reader[string] {
						r := New(Config{Key: "k", MaxMessages: 1, MaxBytes: 1}, newFakeBroker())
						r.OnClose = func() { reg.Remove("k", r) }
						return r
					})
					DrainAll(0)()
					Totals()
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("deadlock")
	}
	if err := WaitClosed(ctx); err != nil {
		t.Error(err)
	}
	if len(reg.All()) != 0 {
		t.Error("closed readers in the registry")
	}
}

func TestKeysOfReadersDiffer(t *testing.T) {
	a, b := NewNonce(), NewNonce()
	keys := map[string]bool{}
	for _, w := range []string{"w1", "w2"} {
		for _, n := range []string{a, b} {
			for slot := range int64(2) {
				keys[ReaderKey(w, n, slot)] = true
			}
		}
	}
	if len(keys) != 8 {
		t.Errorf("%d keys, want 8", len(keys))
	}
}
