package queue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

func TestNewerCallFencesTheOlder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		old := g.begin(Limits{Length: time.Hour})
		synctest.Wait()
		g.deliver("a", "b", "c")
		if d := old.Next(); d.Msg != "a" {
			t.Fatalf("got %v", d)
		}
		newer := g.begin(Limits{}) // while the old one holds b and c
		if d := old.Next(); d != nil {
			t.Errorf("the fenced call got %q", d.Msg)
		}
		old.end()
		if !errors.Is(old.res.Err, errFenced) || old.res.Done {
			t.Errorf("result of the fenced call %+v", old.res)
		}
		newer.read().end()
		wantIDs(t, newer.got, "b", "c")
		newer.finalize()
		g.wantSettled(map[string][]string{"nack": {"h-a"}, "ack": {"h-b", "h-c"}})
		g.wantHeld(0)
	})
}

// The fenced call sleeps in Next; the newer one must not take the wake-up that
// was meant for it.
func TestFencedCallWakesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		old := g.begin(Limits{Length: time.Hour, Gather: true})
		ended := make(chan time.Time, 1)
		go func() {
			old.read().end()
			ended <- time.Now()
		}()
		synctest.Wait()
		newer := g.begin(Limits{Length: time.Minute, Gather: true})
		fenced := time.Now()
		go newer.read()
		if at := <-ended; at.Sub(fenced) != 0 {
			t.Errorf("the fenced call went on for %v", at.Sub(fenced))
		}
		g.deliver("a")
		time.Sleep(2 * time.Minute)
		wantIDs(t, newer.got, "a")
		newer.end()
	})
}

// Reader A emits a, which is finalized behind a checkpoint's barrier. The job
// goes back to that checkpoint on another worker B, and the slot comes back to A
// with a greater epoch: nothing that A does now proves that a is durable.
func TestSlotThatWasElsewhereIsNotVouchedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.Policy = commit.AtNextFinalize })
		first := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		first.read().end()
		first.finalize()
		g.wantSettled(map[string][]string{})

		back := g.beginFrom(Restriction{Epoch: 7, By: nameOf("B")}, g.est, Limits{})
		g.wantSettled(map[string][]string{"nack": {"h-a"}})
		back.read().end()
		back.finalize()
		g.wantSettled(map[string][]string{"nack": {"h-a"}})
	})
}

// The time that a slot spent elsewhere is not the runner's pace: taken for it,
// the reader would keep its buffer for three times as long.
func TestTimeElsewhereIsNoPace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.begin(Limits{}).read().end()
		time.Sleep(time.Hour)
		g.beginFrom(Restriction{Epoch: 9, By: nameOf("B")}, g.est, Limits{}).read().end()
		synctest.Wait()
		g.r.mu.Lock()
		gap := g.r.rhythm.gap
		g.r.mu.Unlock()
		if gap > time.Minute {
			t.Errorf("gap %v", gap)
		}
	})
}

func TestEarlierEpochSupersedesWhatIsNotCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		first := g.begin(Limits{}) // epoch 0
		synctest.Wait()
		g.deliver("a")
		first.read().end()
		second := g.begin(Limits{}) // epoch 1
		g.deliver("b")
		second.read().end()

		again := g.beginAt(1, g.est, Limits{}) // the runner went back to before the second
		g.wantSettled(map[string][]string{"nack": {"h-b"}})
		again.read().end()
		second.finalize() // of a bundle that the runner has given up
		first.finalize()
		g.wantSettled(map[string][]string{"nack": {"h-b"}, "ack": {"h-a"}})
		if n := g.b.settlements("h-b"); n != 1 {
			t.Errorf("h-b settled %d times", n)
		}
	})
}

func TestRunnersCheckpointEndsTheCallAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{Length: time.Hour})
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			c.read().end()
		}()
		synctest.Wait()
		g.deliver("a")
		time.Sleep(time.Second)

		c.mu.Lock()
		_, residual, err := c.tr.TrySplit(0.5)
		c.mu.Unlock()
		if residual != nil || err != nil {
			t.Errorf("split by fraction: %v, %v", residual, err)
		}
		c.mu.Lock()
		primary, residual, err := c.tr.TrySplit(0)
		c.mu.Unlock()
		if primary != (Restriction{Done: true}) || residual != (Restriction{Epoch: 1, By: g.r.name}) || err != nil {
			t.Errorf("checkpoint: %v, %v, %v", primary, residual, err)
		}
		<-ended
		if d := time.Since(began); d != time.Second {
			t.Errorf("the call ended after %v, want at once", d)
		}
		wantIDs(t, c.got, "a")
		if !c.res.Refused || c.res.Done || c.res.Err != nil {
			t.Errorf("result %+v", c.res)
		}
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a"}})
	})
}

// A split comes after the last Next, before End: the residual goes on with the
// slot, so it must not be Done.
func TestCheckpointAndDrainTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.r.Drain(time.Now())
		c.read()
		if _, residual, _ := c.tr.TrySplit(0); residual == nil {
			t.Fatal("no residual")
		}
		c.end()
		if !c.res.Refused || c.res.Done {
			t.Errorf("result %+v", c.res)
		}
		if w := g.est.State().MS; w != InitialState().MS {
			t.Errorf("watermark at %d", w)
		}
		last := g.begin(Limits{}).read().end()
		if !last.res.Done {
			t.Errorf("result of the residual's call %+v", last.res)
		}
		last.finalize()
	})
}

func TestTrackerOfAFinishedSlot(t *testing.T) {
	tr := NewTracker(Restriction{Slot: 3, Epoch: 7}, func() int64 { return 5 })
	if done, remaining := tr.GetProgress(); done != 0 || remaining != 5 || tr.IsBounded() || tr.IsDone() {
		t.Errorf("progress %v, %v", done, remaining)
	}
	if !tr.TryClaim(nil) {
		t.Error("claim refused")
	}
	tr.Finish()
	tr.Finish()
	if tr.TryClaim(nil) || !tr.IsDone() || !tr.IsBounded() || tr.GetError() != nil {
		t.Error("a finished slot can be claimed")
	}
	if _, residual, err := tr.TrySplit(0); residual != nil || err != nil {
		t.Errorf("residual %v of a finished slot, %v", residual, err)
	}
	if done, remaining := tr.GetProgress(); done != 1 || remaining != 0 {
		t.Errorf("progress %v, %v", done, remaining)
	}
	if NewTracker(Restriction{Done: true}, nil).TryClaim(nil) {
		t.Error("a slot that was done is claimed")
	}
	if got := Slots(0); len(got) != 1 {
		t.Errorf("%d slots", len(got))
	}
}
