package queue

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// A WatermarkPolicy says how the watermark follows the messages.
type WatermarkPolicy string

const (
	// PublishTime follows the event times of what is held and was received
	// lately, and the clock when the queue is quiet (see Watermark).
	PublishTime WatermarkPolicy = "publishTime"
	// PublishTimeWithMaxLag is PublishTime, but never further than MaxLag behind
	// the clock. What is older than that is late.
	PublishTimeWithMaxLag WatermarkPolicy = "publishTimeWithMaxLag"
	// WallTime is the clock less Slack. Everything older is late.
	WallTime WatermarkPolicy = "wallTime"
	// UserFunction asks Function.
	UserFunction WatermarkPolicy = "user"
)

// Watermark configures a Reader's watermark. The algorithm promises that no
// first delivery is late as long as an overtaken message arrives within half a
// Window of the first that overtook it, and an available message is received
// within Slack. Redeliveries later than Horizon can be late.
type Watermark struct {
	Policy WatermarkPolicy
	// Window is how long a received time holds the watermark. Default 60 s.
	Window time.Duration
	// IdleAfter is the silence after which a connected, unblocked reader counts
	// as idle, though not before Slack after it became so. Default 5 s.
	IdleAfter time.Duration
	// Slack is how far an idle reader stays behind the clock. Default 10 s.
	Slack time.Duration
	// MaxLag is the bound of PublishTimeWithMaxLag.
	MaxLag time.Duration
	// Behind is how much event times may run behind the order of receipt for
	// other reasons; the watermark stays back by as much.
	Behind time.Duration
	// Horizon is how long given-back times hold the watermark, and how long a
	// reader that takes a slot over leaves the watermark where it is.
	Horizon time.Duration
	// Function is the policy of UserFunction.
	Function func(WatermarkInput) time.Time
}

// WatermarkInput is what a user's watermark function may look at.
type WatermarkInput struct {
	// Now is the clock.
	Now time.Time
	// Current is the watermark so far; a result behind it has no effect.
	Current time.Time
	// OldestHeld is the least event time among messages received and not
	// emitted, zero if there is none.
	OldestHeld time.Time
	// OldestRecent is the least event time received during Window, zero if
	// nothing was.
	OldestRecent time.Time
	// NewestReceived is the greatest event time received so far.
	NewestReceived time.Time
	// Idle tells that the reader is connected, not blocked, and received nothing
	// for IdleAfter.
	Idle bool
	// Silence is how long nothing has been received.
	Silence time.Duration
}

func (w Watermark) withDefaults() Watermark {
	if w.Policy == "" {
		w.Policy = PublishTime
	}
	if w.Window <= 0 {
		w.Window = time.Minute
	}
	if w.IdleAfter <= 0 {
		w.IdleAfter = 5 * time.Second
	}
	if w.Slack <= 0 {
		w.Slack = 10 * time.Second
	}
	if w.Horizon <= 0 {
		w.Horizon = time.Minute
	}
	return w
}

// WatermarkState is the estimator's state between bundles. It travels with the
// residual, so that another instance holds what this one gave back.
type WatermarkState struct {
	// MS is the watermark in Unix milliseconds.
	MS int64
	// FloorMS holds the watermark until FloorUntilMS: the least event time given
	// back to the broker. MaxInt64 means none.
	FloorMS, FloorUntilMS int64
}

// An Estimator is the source's watermark estimator. Unlike the SDK's it never
// goes backwards and may be read while a split is under way.
type Estimator struct {
	mu sync.Mutex
	s  WatermarkState
}

// InitialState is the state of a slot that nobody has read.
func InitialState() WatermarkState {
	return WatermarkState{MS: mtime.MinTimestamp.Milliseconds(), FloorMS: math.MaxInt64}
}

// NewEstimator goes on from s.
func NewEstimator(s WatermarkState) *Estimator { return &Estimator{s: s} }

// CurrentWatermark is the watermark of what was emitted so far.
func (e *Estimator) CurrentWatermark() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return mtime.Time(e.s.MS).ToTime()
}

// State is the state to go on from.
func (e *Estimator) State() WatermarkState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.s
}

// fresh tells whether nobody has moved the watermark yet.
func (e *Estimator) fresh() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.s.MS <= mtime.MinTimestamp.Milliseconds()
}

// advance moves the watermark to t unless that is back, and keeps the floor.
func (e *Estimator) advance(t time.Time, f floor, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.until.After(now) {
		e.s.FloorMS, e.s.FloorUntilMS = f.at.UnixMilli(), f.until.UnixMilli()
	} else if e.s.FloorUntilMS <= now.UnixMilli() {
		e.s.FloorMS, e.s.FloorUntilMS = math.MaxInt64, 0
	}
	if !t.IsZero() {
		e.s.MS = max(e.s.MS, t.UnixMilli())
	}
}

// close moves the watermark to the end of time: nothing will be emitted any more.
func (e *Estimator) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.s.MS = mtime.MaxTimestamp.Milliseconds()
}

// A floor holds the watermark at a time until another one.
type floor struct{ at, until time.Time }

// windowBuckets make up the moving window. One more is being filled, so that
// the window never covers less than it should.
const windowBuckets = 12

// A bucket holds what was received in one twelfth of the window.
type bucket struct {
	start      time.Time
	least      time.Time     // least event time
	ahead      time.Duration // greatest event time minus receive time
	haveEvents bool
}

// lateness is the reader's memory of received times. Its owner locks.
type lateness struct {
	cfg     Watermark
	born    time.Time // idle rule does not count before
	buckets [windowBuckets + 1]bucket
	newest  time.Time // greatest event time received
	last    time.Time // last receipt
	opened  time.Time // last reconnect or end of a blockade
	reached time.Time // how far the watermark has come, zero: not known
	resumed floor     // after a silence, see observe; at may be zero
	given   []given   // times given back to the broker; at and until increase
}

// given is a floor for what may come again until then. first is its earliest
// until, before later ones were made one with it.
type given struct {
	floor
	first time.Time
}

func newLateness(cfg Watermark, now time.Time) *lateness {
	return &lateness{cfg: cfg.withDefaults(), born: now, opened: now}
}

// observe notes the receipt of an event time.
func (l *lateness) observe(event, now time.Time) {
	if now.Sub(l.last) > l.cfg.Window/2 {
		// The first one after a silence may have overtaken others, and nothing
		// that was received before it will tell by then.
		l.resumed = floor{l.reached, now.Add(l.cfg.Window / 2)}
	}
	l.last = now
	if event.After(l.newest) {
		l.newest = event
	}
	b := l.bucket(now)
	if ahead := event.Sub(now); !b.haveEvents || ahead > b.ahead {
		b.ahead = ahead
	}
	if !b.haveEvents || event.Before(b.least) {
		b.least = event
	}
	b.haveEvents = true
}

// bucket is the one to fill now.
func (l *lateness) bucket(now time.Time) *bucket {
	width := int64(l.cfg.Window / windowBuckets)
	n := now.UnixNano() / width
	b := &l.buckets[n%int64(len(l.buckets))]
	if start := time.Unix(0, n*width); !b.start.Equal(start) {
		*b = bucket{start: start}
	}
	return b
}

// recent is the least event time of the window, and how far the newest ran
// ahead of the clock (negative: behind).
func (l *lateness) recent(now time.Time) (least time.Time, ahead time.Duration, ok bool) {
	for i := range l.buckets {
		b := &l.buckets[i]
		if !b.haveEvents || now.Sub(b.start) > l.cfg.Window+l.cfg.Window/windowBuckets {
			continue
		}
		if !ok || b.least.Before(least) {
			least = b.least
		}
		if !ok || b.ahead > ahead {
			ahead = b.ahead
		}
		ok = true
	}
	return least, ahead, ok
}

// giveBack notes that a message of this time will come again.
func (l *lateness) giveBack(event, now time.Time) {
	until := now.Add(l.cfg.Horizon)
	for n := len(l.given); n > 0 && !l.given[n-1].at.Before(event); n = len(l.given) {
		l.given = l.given[:n-1]
	}
	if n := len(l.given); n > 0 && until.Sub(l.given[n-1].first) < l.cfg.Horizon/windowBuckets {
		l.given[n-1].until = until // nearly the same: the list stays short
		return
	}
	l.given = append(l.given, given{floor{event, until}, until})
}

// floor is the least time given back, until the last of them may have come.
func (l *lateness) floor(now time.Time) floor {
	n := 0
	for n < len(l.given) && !l.given[n].until.After(now) {
		n++
	}
	l.given = slices.Delete(l.given, 0, n)
	if len(l.given) == 0 {
		return floor{}
	}
	return floor{l.given[0].at, l.given[len(l.given)-1].until}
}

// takeOver is called when a reader goes on with a slot that another has read:
// what that one held comes again within Horizon, and was not emitted before the
// watermark that it has left.
func (l *lateness) takeOver(current time.Time, s WatermarkState, now time.Time) {
	l.born = now.Add(l.cfg.Horizon)
	l.giveBack(current, now)
	if until := time.UnixMilli(s.FloorUntilMS); until.After(now) {
		l.giveBack(time.UnixMilli(s.FloorMS), now)
	}
}

// candidate is where the watermark may go, zero if it has to stay. held is the
// least event time in the buffer (zero: empty); quiet tells that the reader is
// connected and not blocked.
func (l *lateness) candidate(current, held, now time.Time, quiet bool) time.Time {
	least, ahead, seen := l.recent(now)
	silence := now.Sub(later(l.last, l.opened))
	// What was there when the reader could receive again is received within Slack.
	idle := quiet && held.IsZero() && silence >= l.cfg.IdleAfter && now.Sub(l.opened) >= l.cfg.Slack && !now.Before(l.born)
	var t time.Time
	switch l.cfg.Policy {
	case WallTime:
		t = now.Add(-l.cfg.Slack)
	case UserFunction:
		in := WatermarkInput{Now: now, Current: current, OldestHeld: held, NewestReceived: l.newest, Idle: idle, Silence: silence}
		if seen {
			in.OldestRecent = least
		}
		t = l.cfg.Function(in)
	default:
		switch {
		case idle:
			// A broker whose clock is behind ours stamps less than our now.
			t = now.Add(min(ahead, 0) - l.cfg.Slack)
		case seen && !held.IsZero():
			t = earlier(least, held)
		case seen:
			t = least
		default:
			t = held
		}
		if !t.IsZero() {
			t = t.Add(-l.cfg.Behind)
		}
		if !idle && !now.After(l.resumed.until) {
			t = earlier(t, l.resumed.at)
		}
		if f := l.floor(now); !t.IsZero() && f.until.After(now) {
			t = earlier(t, f.at)
		}
		if l.cfg.Policy == PublishTimeWithMaxLag {
			if bound := now.Add(-l.cfg.MaxLag); t.Before(bound) {
				t = bound
			}
		}
	}
	if t.After(now) {
		t = now // a stamp from the future must not make the present late
	}
	if !t.IsZero() {
		l.reached = later(current, t)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
