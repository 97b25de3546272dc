package queue

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

func TestMessagesAreAcknowledgedInOrderWhenTheirBundleIsCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b", "c")
		c.read().end()
		wantIDs(t, c.got, "a", "b", "c")
		if c.res.Emitted != 3 || c.res.Bytes != 30 || c.res.Done || c.res.Err != nil {
			t.Errorf("result %+v", c.res)
		}
		g.wantSettled(nil) // the bundle ended, but nobody said that it is durable
		g.wantHeld(3)
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-b", "h-c"}})
		g.wantHeld(0)
		c.finalize() // twice is harmless
		if n := g.b.settlements("h-a"); n != 1 {
			t.Errorf("acknowledged %d times", n)
		}
		if n := g.r.Stats().Acked.Load(); n != 3 {
			t.Errorf("acked counts %d", n)
		}
	})
}

func TestFailedBundleGivesBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		c.read()
		c.End()
		c.bundleEnds(false)
		synctest.Wait()
		g.wantSettled(map[string][]string{"nack": {"h-a"}})
		if d := time.Since(g.b.when["h-a"]); d != 0 {
			t.Errorf("given back %v ago", d)
		}
	})
}

// The call ends by a panic of the pipeline: End runs deferred, the bundle fails.
func TestPanicInThePipelineGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		func() {
			defer func() { _ = recover() }()
			defer c.End()
			c.Next()
			panic("pipeline")
		}()
		c.bundleEnds(false)
		g.wantSettled(map[string][]string{"nack": {"h-a"}})
		next := g.begin(Limits{}).read().end()
		wantIDs(t, next.got, "b")
	})
}

// A user's watermark function that panics must not leave messages unsettled.
func TestPanicInWatermarkFunctionGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) {
			c.Watermark = Watermark{Policy: UserFunction, Function: func(WatermarkInput) time.Time { panic("user") }}
		})
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		c.read()
		func() {
			defer func() { _ = recover() }()
			c.End()
		}()
		c.bundleEnds(false)
		g.wantSettled(map[string][]string{"nack": {"h-a"}})
	})
}

func TestExpiredBundleGivesBackAndCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.CommitTimeout = 5 * time.Second })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		c.read().end()
		time.Sleep(4 * time.Second)
		g.wantSettled(nil)
		time.Sleep(2 * time.Second)
		g.wantSettled(map[string][]string{"nack": {"h-a", "h-b"}})
		if n := g.r.Stats().Expired.Load(); n != 2 {
			t.Errorf("expired counts %d, want 2", n)
		}
		c.finalize() // too late
		g.wantSettled(map[string][]string{"nack": {"h-a", "h-b"}})
	})
}

func TestBoundByCountAndBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.MaxMessages, c.MaxBytes = 3, 25 })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		if n, b := g.r.Room(); n != 1 || b != 5 {
			t.Errorf("room %d, %d, want 1, 5", n, b)
		}
		if over := g.r.Deliver([]Delivery[string]{message("c"), message("d")}); over != 1 {
			t.Errorf("over by %d, want 1", over)
		}
		if n, b := g.r.Room(); n != 0 || b != 0 {
			t.Errorf("room %d, %d, want none", n, b)
		}
		var waiting atomic.Int64
		for range 2 { // two streams of one reader
			go func() {
				waiting.Add(1)
				if err := g.r.WaitRoom(t.Context()); err != nil {
					t.Error(err)
				}
				waiting.Add(-1)
			}()
			synctest.Wait()
		}
		if n := waiting.Load(); n != 2 {
			t.Fatalf("%d wait, want 2", n)
		}
		c.read().end()
		synctest.Wait()
		if waiting.Load() != 2 {
			t.Errorf("emitted but not committed made room")
		}
		c.finalize()
		if n := waiting.Load(); n != 0 {
			t.Errorf("%d still wait though all was settled", n)
		}
	})
}

// One settlement wakes one of those that wait, and may make room for all.
func TestRoomForAllWakesAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.MaxBytes = 10 })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		var waiting atomic.Int64
		for range 3 { // streams of one reader
			waiting.Add(1)
			go func() {
				defer waiting.Add(-1)
				if err := g.r.WaitRoom(t.Context()); err != nil {
					t.Error(err)
				}
			}()
		}
		c.read().end()
		if synctest.Wait(); waiting.Load() != 3 {
			t.Errorf("%d wait, want 3", waiting.Load())
		}
		c.finalize()
		if n := waiting.Load(); n != 0 {
			t.Errorf("%d still wait though there is room", n)
		}
	})
}

func TestRedeliveryWhileOpenReplacesTheHandle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		again := message("a")
		again.Handle, again.Attempt = "h-a2", 2
		g.give(again) // in the buffer
		c.read()
		wantIDs(t, c.got, "a", "b")
		again = message("b")
		again.Handle = "h-b2"
		g.give(again) // emitted
		c.end()
		next := g.begin(Limits{}).read().end()
		wantIDs(t, next.got)
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a2", "h-b2"}})
		g.wantHeld(0)
		if s := g.r.Stats(); s.Replaced.Load() != 2 || s.Redelivered.Load() != 2 {
			t.Errorf("replaced %d, redelivered %d, want 2 and 2", s.Replaced.Load(), s.Redelivered.Load())
		}
	})
}

func TestRedeliveryAfterNackIsEmitted(t *testing.T) {
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprintf("broker has answered=%v", answered), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				if !answered {
					g.b.settling = make(chan struct{})
				}
				c := g.begin(Limits{})
				synctest.Wait()
				g.deliver("a")
				c.read()
				c.End()
				c.bundleEnds(false)
				synctest.Wait()
				again := message("a")
				again.Handle = "h-a2"
				g.give(again)
				next := g.begin(Limits{}).read().end()
				wantIDs(t, next.got, "a")
				if !answered {
					close(g.b.settling)
				}
				next.finalize()
				g.wantSettled(map[string][]string{"nack": {"h-a"}, "ack": {"h-a2"}})
				g.wantHeld(0)
			})
		})
	}
}

func TestDuplicatesOfAKey(t *testing.T) {
	keyed := func(id, key string) Delivery[string] {
		d := message(id)
		d.Key = key
		return d
	}
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.Remember, c.RememberFor, c.MaxMessages = 2, 5*time.Second, 10 })
		c := g.begin(Limits{})
		synctest.Wait()
		g.give(keyed("1", "k"), keyed("2", "k"))
		if n, _ := g.r.Room(); n != 8 {
			t.Errorf("room for %d: a duplicate counts, want 8", n)
		}
		again := keyed("2", "k")
		again.Handle = "h-2b"
		g.give(again)
		c.read().end()
		wantIDs(t, c.got, "1")
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-1", "h-2b"}})
		if n, _ := g.r.Room(); n != 10 {
			t.Errorf("room for %d after all was settled, want 10", n)
		}

		g.give(keyed("3", "k")) // remembered
		g.wantSettled(map[string][]string{"ack": {"h-1", "h-2b", "h-3"}})
		if n := g.r.Stats().Deduplicated.Load(); n != 2 {
			t.Errorf("deduplicated counts %d, want 2", n)
		}
		time.Sleep(6 * time.Second) // forgotten
		c = g.begin(Limits{})
		synctest.Wait()
		g.give(keyed("4", "k"))
		wantIDs(t, c.read().end().got, "4")
	})
}

func TestDuplicateSharesTheFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.Remember = 2 })
		c := g.begin(Limits{})
		synctest.Wait()
		for _, id := range []string{"1", "2"} {
			d := message(id)
			d.Key = "k"
			g.give(d)
		}
		c.read()
		c.End()
		c.bundleEnds(false)
		g.wantSettled(map[string][]string{"nack": {"h-1", "h-2"}})
	})
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory(100, time.Hour)
	now := time.Unix(0, 0)
	for i := range 10_000 {
		m.add(fmt.Sprint(i), now)
		m.add(fmt.Sprint(i), now)
	}
	if len(m.at) != 100 || len(m.order) != 100 || cap(m.order) > 1000 {
		t.Errorf("%d keys, %d in order, room for %d", len(m.at), len(m.order), cap(m.order))
	}
	if !m.has("9999", now) || m.has("9899", now) || m.has("9999", now.Add(2*time.Hour)) {
		t.Error("remembers the wrong keys")
	}
}

func TestEarlyAckNeedsNoCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.EarlyAck, c.Remember = true, 10 })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		c.read()
		c.End()
		g.wantSettled(map[string][]string{"ack": {"h-a"}})
		c.bundleEnds(false)
		again := message("a")
		again.Handle = "h-a2"
		g.give(again)
		wantIDs(t, g.begin(Limits{}).read().end().got)
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-a2"}})
	})
}

func TestSettlementThatTheBrokerRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.b.refuse["h-a"] = true
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b")
		c.read().end()
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-b"}})
		g.wantHeld(0)
		if s := g.r.Stats(); s.SettleFailed.Load() != 1 || s.Acked.Load() != 1 {
			t.Errorf("failed %d, acked %d", s.SettleFailed.Load(), s.Acked.Load())
		}
	})
}

func TestReceiveErrorEndsOneBundleAndIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{Length: time.Hour})
		synctest.Wait()
		g.deliver("a")
		began := time.Now()
		wrong := errors.New("permission denied")
		go func() { g.b.fail <- wrong }()
		c.read()
		if d := time.Since(began); d > time.Second {
			t.Errorf("the call went on for %v", d)
		}
		c.end()
		if !errors.Is(c.res.Err, wrong) || c.res.Done {
			t.Errorf("result %+v", c.res)
		}
		g.wantSettled(map[string][]string{"nack": {"h-a"}})

		next := g.begin(Limits{}) // the runner's retry
		synctest.Wait()
		g.deliver("b")
		next.read().end()
		wantIDs(t, next.got, "b")
		if next.res.Err != nil || g.b.receives != 2 {
			t.Errorf("error %v, received %d times", next.res.Err, g.b.receives)
		}
	})
}

func TestReceiveThatReturnsIsStartedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.begin(Limits{}).read().end()
		g.b.fail <- nil
		synctest.Wait()
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		wantIDs(t, c.read().end().got, "a")
	})
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits Limits
		want   string
	}{
		{"messages", Limits{Messages: 2}, "a,b"},
		{"bytes are never exceeded", Limits{Bytes: 25}, "a,b"},
		{"a large message goes alone", Limits{Bytes: 5}, "a"},
		{"immediate takes what is there", Limits{Quiet: Immediate, Length: time.Hour}, "a,b,c"},
		{"quiet", Limits{Quiet: time.Second, Length: time.Hour}, "a,b,c,late"},
		{"length", Limits{Length: 300 * time.Millisecond}, "a,b,c"},
		{"gather waits for its whole length", Limits{Length: 2 * time.Second, Gather: true, Every: 5 * time.Second}, "a,b,c,late"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := newRig(t, nil)
				g.begin(Limits{}).read().end()
				g.deliver("a", "b", "c")
				began := time.Now()
				time.AfterFunc(500*time.Millisecond, func() { g.r.Deliver([]Delivery[string]{message("late")}) })
				c := g.begin(tc.limits).read().end()
				wantIDs(t, c.got, strings.Split(tc.want, ",")...)
				if tc.limits.Gather {
					if d := time.Since(began); d != 2*time.Second || c.res.Resume != 3*time.Second {
						t.Errorf("gathered for %v, resumes in %v", d, c.res.Resume)
					}
				}
				// What was not taken comes next, in order.
				time.Sleep(time.Second)
				rest := g.begin(Limits{}).read().end()
				if all := strings.Join(append(c.got, rest.got...), ","); all != "a,b,c,late" {
					t.Errorf("emitted %s in two calls", all)
				}
			})
		})
	}
}

func TestFirstBoundsTheWaitForTheFirstMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		began := time.Now()
		g.begin(Limits{Length: time.Hour, First: time.Second, Gather: true}).read().end()
		if d := time.Since(began); d != time.Second {
			t.Errorf("waited %v, want 1s", d)
		}
	})
}

func TestIdleSourceIsPolledSeldom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		began, polls := time.Now(), 0
		for time.Since(began) < 3*time.Minute {
			c := g.begin(Limits{}).read().end()
			if polls >= idleCalls && (c.res.Resume < minResume || c.res.Resume > maxResume) {
				t.Fatalf("poll %d resumes in %v", polls, c.res.Resume)
			}
			polls++
			time.Sleep(c.res.Resume)
		}
		if polls > 3*75 || polls < 3*55 {
			t.Errorf("%d polls in three minutes, want at most 75 a minute", polls)
		}
		// Something comes: it is read by the next poll, and the source is awake.
		g.deliver("a")
		c := g.begin(Limits{}).read().end()
		wantIDs(t, c.got, "a")
		if c.res.Resume != 0 {
			t.Errorf("resumes in %v after a message", c.res.Resume)
		}
	})
}

func TestMessagesPutAsideAreHeldAndReleasedAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a", "b", "c")
		for d := c.Next(); d != nil; d = c.Next() {
			if d.Msg == "b" {
				c.PutAside()
				c.Finish(time.Second)
			}
		}
		c.end()
		if c.res.Emitted != 2 || c.res.Bytes != 20 || !c.res.Done {
			t.Errorf("result %+v", c.res)
		}
		c.finalize()
		g.wantSettled(map[string][]string{"ack": {"h-a", "h-c"}, "release": {"h-b"}})
	})
}

func TestRunnersPolicyDecidesTheDefaultLength(t *testing.T) {
	for _, tc := range []struct {
		runner string
		policy commit.Policy
		want   time.Duration
	}{
		{"prism", commit.AtFinalize, 50 * time.Millisecond},
		{"", commit.AtFinalize, 50 * time.Millisecond},
		{"dataflow", commit.AtFinalize, 5 * time.Second},
		{"flink", commit.AtNextFinalize, 2 * time.Second},
	} {
		if got := DefaultLimits(tc.runner, tc.policy).Length; got != tc.want {
			t.Errorf("%q: %v, want %v", tc.runner, got, tc.want)
		}
	}
}
