package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// The broker delivers all messages of an ordering key again from the one that
// was given back; those in the buffer must not overtake it.
func TestFailedMessageTakesItsFollowersAlong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{Messages: 1})
		synctest.Wait()
		ordered := func(id, key string) Delivery[string] {
			d := message(id)
			d.Order = key
			return d
		}
		g.give(ordered("a1", "a"), ordered("a2", "a"), ordered("b1", "b"), message("free"))
		c.read()
		c.End()
		c.bundleEnds(false)
		g.wantSettled(map[string][]string{"nack": {"h-a1"}, "release": {"h-a2"}})
		for _, id := range []string{"a1", "a2"} {
			d := ordered(id, "a")
			d.Handle = "again-" + id
			g.give(d)
		}
		wantIDs(t, g.begin(Limits{}).read().end().got, "b1", "free", "a1", "a2")
	})
}

func TestLostLeaseTakesTheFollowersAlong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		g.begin(Limits{}).read().end()
		for _, id := range []string{"a1", "a2"} {
			d := message(id)
			d.Order = "a"
			g.give(d)
		}
		g.b.lose("h-a1")
		time.Sleep(7 * time.Second)
		g.wantSettled(map[string][]string{"release": {"h-a2"}})
		g.wantHeld(0)
	})
}

// A stream that was opened again can bring a message whose first delivery is
// still good.
func TestTwoLiveDeliveriesAreBothRenewedAndSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		again := message("a")
		again.Handle = "h-a2"
		g.give(again)
		if n, _ := g.r.Room(); n != 998 {
			t.Errorf("room for %d, want 998", n)
		}
		wantIDs(t, c.read().end().got, "a")
		time.Sleep(20 * time.Second)
		for _, h := range []string{"h-a", "h-a2"} {
			if g.b.renewals(h) < 2 {
				t.Errorf("%s renewed %d times in 20 s", h, g.b.renewals(h))
			}
		}
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-a2"}})
		g.wantHeld(0)
	})
}

func TestIntervalIsTheRunnersIdleTime(t *testing.T) {
	var p rhythm
	now := at(0)
	// cycle is a call, its commit, and what the runner lets pass.
	cycle := func(call, commit, resume, idle time.Duration) {
		p.begin(now, false)
		began := now
		now = now.Add(call)
		p.end(now, resume)
		ended := now
		now = now.Add(commit)
		p.committed(began, ended, 0, commit, 1, now)
		now = now.Add(resume + idle)
	}
	for range 5 {
		cycle(5*time.Minute, 5*time.Minute, time.Minute, time.Millisecond)
	}
	if p.interval != 0 {
		t.Errorf("slow bundles, commits and our own delays taken for an interval of %v", p.interval)
	}
	for range 3 {
		cycle(time.Second, time.Second, 0, 58*time.Second)
	}
	if p.interval != time.Minute {
		t.Errorf("interval %v, want a minute", p.interval)
	}
	cycle(57*time.Second, time.Second, 0, 2*time.Second) // gathers up to its margin
	cycle(57*time.Second, time.Second, 0, 2*time.Second)
	if p.interval != time.Minute {
		t.Errorf("interval %v, want still a minute", p.interval)
	}
	for range 3 {
		cycle(time.Second, time.Second, 0, 0)
	}
	if p.interval != 0 {
		t.Errorf("interval %v though the runner comes back at once", p.interval)
	}
}
