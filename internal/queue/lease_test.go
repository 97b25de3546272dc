package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

func leased(d time.Duration) func(*Config) {
	return func(c *Config) { c.Lease = func() time.Duration { return d } }
}

func TestLeasesAreRenewedUntilTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		c := g.begin(Limits{Messages: 1})
		synctest.Wait()
		g.deliver("a", "b")
		c.read().end()
		for range 35 {
			g.begin(Limits{Messages: 1, Length: time.Millisecond}).end() // b stays in the buffer
			time.Sleep(time.Second)
		}
		c.finalize()
		for _, h := range []string{"h-a", "h-b"} {
			if n := g.b.renewals(h); n < 3 || n > 8 {
				t.Errorf("%v renewed %d times in 35 s, want at half life", h, n)
			}
		}
		n := g.b.renewals("h-a")
		time.Sleep(9 * time.Second)
		if g.b.renewals("h-a") != n {
			t.Error("renewed after the acknowledgement")
		}
		s := g.r.Stats()
		if s.AckExpired.Load() != 0 || s.LeaseExpired.Load() != 0 || s.Renewed.Load() == 0 {
			t.Errorf("late acks %d, lost %d, renewed %d", s.AckExpired.Load(), s.LeaseExpired.Load(), s.Renewed.Load())
		}
	})
}

func TestDeliveryWithALeaseOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(60*time.Second))
		c := g.begin(Limits{})
		synctest.Wait()
		d := message("a")
		d.Lease = 20 * time.Second // of a stream that was opened with less
		g.give(d)
		c.read().end()
		time.Sleep(19 * time.Second)
		if g.b.renewals("h-a") == 0 {
			t.Error("not renewed before its own lease ended")
		}
	})
}

func TestLostLeaseOfABufferedMessageDropsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		g.begin(Limits{}).read().end()
		dup := message("a2")
		dup.Key = "k"
		first := message("a")
		first.Key = "k"
		g.give(first, dup)
		g.deliver("b")
		g.b.lose("h-a")
		time.Sleep(7 * time.Second)
		c := g.begin(Limits{}).read().end()
		wantIDs(t, c.got, "b")
		// The duplicate waited for an outcome that it will not have.
		g.wantSettled(map[string][]string{"release": {"h-a2"}})
		g.wantHeld(1)
		if n := g.r.Stats().LeaseExpired.Load(); n != 1 {
			t.Errorf("lost leases %d", n)
		}
		again := message("a")
		again.Handle = "h-a-again"
		g.give(again)
		wantIDs(t, g.begin(Limits{}).read().end().got, "a")
	})
}

func TestLostLeaseOfAnEmittedMessageCountsItsLateAck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		c.read().end()
		g.b.lose("h-a", "h-b")
		time.Sleep(9 * time.Second)
		again := message("b") // comes again and is ours again
		again.Handle = "h-b2"
		g.give(again)
		time.Sleep(5 * time.Second)
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-b2"}})
		s := g.r.Stats()
		if s.LeaseExpired.Load() != 2 || s.AckExpired.Load() != 1 || s.Emitted.Load() != 2 {
			t.Errorf("lost %d, late acks %d, emitted %d, want 2, 1, 2", s.LeaseExpired.Load(), s.AckExpired.Load(), s.Emitted.Load())
		}
	})
}

func TestLostLeaseOfADuplicate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, leased(10*time.Second))
		c := g.begin(Limits{})
		synctest.Wait()
		for _, id := range []string{"1", "2"} {
			d := message(id)
			d.Key = "k"
			g.give(d)
		}
		c.read().end()
		g.b.lose("h-2")
		time.Sleep(7 * time.Second)
		if n, _ := g.r.Room(); n != 999 {
			t.Errorf("room for %d, want 999", n)
		}
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-1"}})
	})
}
