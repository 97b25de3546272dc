package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"pgregory.net/rapid"
)

// at is a time of the simulations.
func at(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }

// A sentMessage is published and received at some time.
type sentMessage struct{ published, received time.Duration }

// A stream is what a reader sees: messages, and when it cannot receive.
type stream struct {
	messages []sentMessage
	blocked  [][2]time.Duration
	end      time.Duration
}

// newStream makes a stream of bursts and silences in which every message is
// received within lag of its publication, or of the end of the blockade in which
// it was published.
func newStream(rnd *rand.Rand, lag time.Duration) stream {
	var s stream
	upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	now := upTo(time.Minute)
	for range 4 {
		gap := time.Millisecond + upTo(2*time.Second)
		for range rnd.IntN(150) {
			now += upTo(gap)
			s.messages = append(s.messages, sentMessage{now, now + upTo(lag)})
		}
		if rnd.IntN(2) == 0 {
			now += upTo(3 * time.Minute)
			continue
		}
		s.block(now, now+upTo(3*time.Minute))
		for range rnd.IntN(20) { // published meanwhile
			b := s.blocked[len(s.blocked)-1]
			if b[1] > b[0] {
				s.messages = append(s.messages, sentMessage{b[0] + upTo(b[1]-b[0]), b[1] + upTo(lag)})
			}
		}
		now = s.blocked[len(s.blocked)-1][1]
	}
	s.end = now + lag
	slices.SortFunc(s.messages, func(a, b sentMessage) int { return int(a.received - b.received) })
	return s
}

// block lets nothing be received from from to to. What was under way is
// received before.
func (s *stream) block(from, to time.Duration) {
	for i := range s.messages {
		s.messages[i].received = min(s.messages[i].received, from)
	}
	s.blocked = append(s.blocked, [2]time.Duration{from, to})
}

func (s *stream) isBlocked(now time.Duration) (blocked bool, since time.Duration) {
	for _, b := range s.blocked {
		if now >= b[1] {
			since = b[1]
		}
		if now >= b[0] && now < b[1] {
			blocked = true
		}
	}
	return blocked, since
}

// TestNoFirstDeliveryIsLate is the promise of Watermark, over random bursts,
// silences and blockades, with calls that leave part of the buffer.
func TestNoFirstDeliveryIsLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		lag := time.Duration(rapid.IntRange(1, 30).Draw(t, "lag")) * time.Second
		s := newStream(rnd, lag)
		l := newLateness(Watermark{Slack: lag}, at(0)) // window/2 is 30 s
		est := NewEstimator(InitialState())
		var buffer []sentMessage
		next := 0
		for now := time.Duration(0); now < s.end; now += time.Duration(rnd.Int64N(int64(2 * time.Second))) {
			for ; next < len(s.messages) && s.messages[next].received <= now; next++ {
				m := s.messages[next]
				l.observe(at(m.published), at(m.received))
				buffer = append(buffer, m)
			}
			// The call emits a part of the buffer.
			n := len(buffer)
			if rnd.IntN(3) == 0 {
				n = rnd.IntN(n + 1)
			}
			for _, m := range buffer[:n] {
				if w := est.CurrentWatermark(); at(m.published).Before(w) {
					t.Fatalf("published at %v, received at %v, emitted at %v: watermark at %v", m.published, m.received, now, w.Sub(at(0)))
				}
			}
			buffer = buffer[n:]
			var least time.Time
			for _, m := range buffer {
				if p := at(m.published); least.IsZero() || p.Before(least) {
					least = p
				}
			}
			blocked, since := s.isBlocked(now)
			l.opened = later(l.opened, at(since))
			before := est.CurrentWatermark()
			est.advance(l.candidate(before, least, at(now), !blocked), l.floor(at(now)), at(now))
			w := est.CurrentWatermark()
			if w.Before(before) || w.After(at(now)) {
				t.Fatalf("watermark went from %v to %v at %v", before, w, at(now))
			}
		}
		// And it does advance: the source is idle now.
		end := s.end + 2*time.Minute
		est.advance(l.candidate(est.CurrentWatermark(), time.Time{}, at(end), true), l.floor(at(end)), at(end))
		if w := est.CurrentWatermark(); w.Before(at(end - 2*time.Minute)) {
			t.Fatalf("idle watermark at %v, now %v", w, at(end))
		}
	})
}

func TestBusyWatermarkFollowsWithinTheWindow(t *testing.T) {
	l := newLateness(Watermark{}, at(0))
	est := NewEstimator(InitialState())
	for now := time.Duration(0); now < 5*time.Minute; now += 100 * time.Millisecond {
		l.observe(at(now), at(now))
		est.advance(l.candidate(est.CurrentWatermark(), time.Time{}, at(now), true), floor{}, at(now))
		if lag := at(now).Sub(est.CurrentWatermark()); now > 90*time.Second && (lag > 66*time.Second || lag < 60*time.Second) {
			t.Fatalf("%v behind after %v", lag, now)
		}
	}
}

func TestWindowHoldsForItsWholeLength(t *testing.T) {
	for offset := time.Duration(0); offset < 5*time.Second; offset += 100 * time.Millisecond {
		l := newLateness(Watermark{}, at(0))
		l.observe(at(0), at(offset))
		for now := offset; now <= offset+time.Minute; now += time.Second {
			l.observe(at(now), at(now))
			if least, _, _ := l.recent(at(now)); !least.Equal(at(0)) {
				t.Fatalf("received at %v, forgotten at %v", offset, now)
			}
		}
	}
}

func TestFloorOfTimesGivenBack(t *testing.T) {
	l := newLateness(Watermark{Horizon: time.Minute}, at(0))
	l.giveBack(at(-20*time.Second), at(0))
	l.giveBack(at(-10*time.Second), at(30*time.Second))
	l.giveBack(at(-15*time.Second), at(31*time.Second))
	for _, tc := range []struct{ now, want time.Duration }{
		{50 * time.Second, -20 * time.Second},
		{70 * time.Second, -15 * time.Second},
	} {
		if f := l.floor(at(tc.now)); !f.at.Equal(at(tc.want)) {
			t.Errorf("floor at %v is %v, want %v", tc.now, f.at.Sub(at(0)), tc.want)
		}
	}
	if f := l.floor(at(100 * time.Second)); !f.until.IsZero() {
		t.Errorf("floor %v after the horizon", f)
	}
}

// Messages given back now and then must not hold the watermark for ever.
func TestTrickleOfFailuresDoesNotStickTheFloor(t *testing.T) {
	l := newLateness(Watermark{Horizon: time.Minute}, at(0))
	for now := time.Duration(0); now < time.Hour; now += 700 * time.Millisecond {
		l.giveBack(at(now-time.Second), at(now))
		if f := l.floor(at(now)); at(now).Sub(f.at) > 70*time.Second {
			t.Fatalf("floor %v behind at %v", at(now).Sub(f.at), now)
		}
		if len(l.given) > 2*windowBuckets {
			t.Fatalf("%d floors", len(l.given))
		}
	}
}

func TestCandidateOfEachPolicy(t *testing.T) {
	function := func(in WatermarkInput) time.Time {
		if in.Current.IsZero() || !in.OldestHeld.Equal(at(5*time.Second)) || !in.OldestRecent.Equal(at(2*time.Second)) ||
			!in.NewestReceived.Equal(at(20*time.Second)) || in.Idle || in.Silence != 40*time.Second || !in.Now.Equal(at(60*time.Second)) {
			t.Errorf("the user's function got %+v", in)
		}
		return in.Now.Add(-7 * time.Second)
	}
	for _, tc := range []struct {
		name string
		w    Watermark
		want time.Duration
	}{
		{"publish time", Watermark{}, 2 * time.Second},
		{"publish time, event times behind", Watermark{Behind: time.Second}, time.Second},
		{"publish time, bounded lag", Watermark{Policy: PublishTimeWithMaxLag, MaxLag: 30 * time.Second}, 30 * time.Second},
		{"wall time", Watermark{Policy: WallTime, Slack: 4 * time.Second}, 56 * time.Second},
		{"user's function", Watermark{Policy: UserFunction, Function: function}, 53 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLateness(tc.w, at(0))
			l.observe(at(2*time.Second), at(10*time.Second))
			l.observe(at(20*time.Second), at(20*time.Second))
			got := l.candidate(at(0), at(5*time.Second), at(60*time.Second), true)
			if !got.Equal(at(tc.want)) {
				t.Errorf("%v, want %v", got.Sub(at(0)), tc.want)
			}
		})
	}
}

func TestStampsFromTheFutureAreClamped(t *testing.T) {
	for _, p := range []WatermarkPolicy{PublishTime, UserFunction} {
		l := newLateness(Watermark{Policy: p, Function: func(WatermarkInput) time.Time { return at(time.Hour) }}, at(0))
		l.observe(at(time.Hour), at(0))
		if got := l.candidate(at(0), at(time.Hour), at(40*time.Second), true); !got.Equal(at(40 * time.Second)) {
			t.Errorf("%s: %v, want now", p, got.Sub(at(0)))
		}
	}
}

func TestIdleRule(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.ParkAfter = time.Hour })
		lag := func() time.Duration {
			g.begin(Limits{Length: time.Millisecond}).read().end()
			return time.Since(g.est.CurrentWatermark())
		}
		if g.est.CurrentWatermark() != mtime.MinTimestamp.ToTime() {
			t.Errorf("watermark %v before anything", g.est.CurrentWatermark())
		}
		lag()
		time.Sleep(9 * time.Second)
		if d := lag(); d < time.Hour {
			t.Errorf("%v behind before an available message must have come", d)
		}
		time.Sleep(2 * time.Second)
		if d := lag(); d > 10*time.Second+time.Millisecond {
			t.Errorf("idle, and %v behind", d)
		}
		// Not connected: silence means nothing.
		w := g.est.CurrentWatermark()
		g.r.Connected(false)
		time.Sleep(time.Minute)
		if lag(); g.est.CurrentWatermark() != w {
			t.Error("moved while not connected")
		}
		g.r.Connected(true)
		time.Sleep(9 * time.Second)
		if lag(); g.est.CurrentWatermark() != w {
			t.Error("moved before what waited must have come")
		}
		time.Sleep(2 * time.Second)
		if d := lag(); d > 10*time.Second+time.Millisecond {
			t.Errorf("idle again, and %v behind", d)
		}
	})
}

// A reader that holds all it may receives nothing. The silence ends when its
// messages are settled, and counts from then.
func TestIdleRuleAfterABlockade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.MaxMessages = 1 })
		c := g.begin(Limits{})
		synctest.Wait()
		backlog := time.Now().Add(-time.Minute)
		d := message("a")
		d.Time = backlog
		g.give(d)
		c.read().end()
		for range 5 {
			time.Sleep(time.Minute)
			g.begin(Limits{}).end()
		}
		c.finalize()
		g.begin(Limits{}).end()
		time.Sleep(4 * time.Second)
		d = message("b")
		d.Time = backlog.Add(time.Second)
		g.give(d)
		if w := g.est.CurrentWatermark(); d.Time.Before(w) {
			t.Errorf("late by %v", w.Sub(d.Time))
		}
		last := g.begin(Limits{}).read().end()
		last.finalize()
	})
}

func TestTakeOverHoldsTheWatermark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		held := time.Now()
		est := NewEstimator(InitialState())
		est.advance(held.Add(-time.Second), floor{}, time.Now())
		g := newRig(t, func(c *Config) { c.Watermark.Horizon, c.ParkAfter = 3*time.Minute, time.Hour })
		g.est, g.epoch = est, 12
		w := est.CurrentWatermark()
		for now := range 17 { // busy for almost the horizon
			c := g.begin(Limits{Length: time.Millisecond})
			synctest.Wait()
			g.deliver(string(rune('a' + now)))
			c.read().end()
			c.finalize()
			time.Sleep(10 * time.Second)
		}
		if got := est.CurrentWatermark(); !got.Equal(w) {
			t.Errorf("moved by %v while the other reader's messages can come", got.Sub(w))
		}
		time.Sleep(30 * time.Second)
		g.begin(Limits{Length: time.Millisecond}).read().end()
		if !est.CurrentWatermark().After(w) {
			t.Error("held longer than the horizon")
		}
	})
}

func TestFloorTravelsWithTheEstimator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.Watermark.Horizon = time.Minute })
		c := g.begin(Limits{})
		synctest.Wait()
		g.deliver("a")
		sent := time.Now()
		c.read()
		c.End()
		c.bundleEnds(false)
		synctest.Wait()
		given := time.Now()
		time.Sleep(20 * time.Second)
		g.begin(Limits{Length: time.Millisecond}).read().end()
		s := g.est.State()
		if s.FloorMS != sent.UnixMilli() || s.FloorUntilMS != given.Add(time.Minute).UnixMilli() {
			t.Errorf("state %+v, want the floor of a", s)
		}
		if s.MS > sent.UnixMilli() {
			t.Errorf("the watermark passed a message that comes again by %d ms", s.MS-sent.UnixMilli())
		}
		time.Sleep(time.Minute)
		g.begin(Limits{Length: time.Millisecond}).read().end()
		if s := g.est.State(); s.FloorMS != InitialState().FloorMS {
			t.Errorf("state %+v still has the floor", s)
		}
	})
}

func TestEstimatorIsMonotonic(t *testing.T) {
	e := NewEstimator(InitialState())
	if !e.fresh() {
		t.Error("not fresh")
	}
	e.advance(at(time.Second), floor{}, at(0))
	e.advance(at(0), floor{}, at(0))
	e.advance(time.Time{}, floor{}, at(0))
	if w := e.CurrentWatermark(); !w.Equal(at(time.Second)) || e.fresh() {
		t.Errorf("watermark %v", w)
	}
	e = NewEstimator(e.State())
	if w := e.CurrentWatermark(); !w.Equal(at(time.Second)) {
		t.Errorf("watermark %v after the move", w)
	}
	e.close()
	if e.State().MS != mtime.MaxTimestamp.Milliseconds() {
		t.Error("not closed")
	}
}
