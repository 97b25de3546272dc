package queue

import "time"

// A rhythm is what a Reader has learnt about the runner's pace.
type rhythm struct {
	lastBegin, lastEnd time.Time
	gap                time.Duration // from a call's end to the next call's begin
	period             time.Duration // from begin to begin
	committedAt        time.Time     // of the newest commit
	resume             time.Duration // delay that the last call asked for
	interval           time.Duration // that the runner keeps, 0: none
	awaiting           bool          // the outcome of a bundle is; how long was idle is not known
	commit             time.Duration // from a call's begin to its commit
	write              time.Duration // from a call's end to its commit
	longestCommit      time.Duration // from a bundle's end to its commit
	limit              int           // messages per call where bundles are slow, else 0
	limited            time.Time     // when that was changed
}

const (
	// Where nothing else is asked, calls are kept so small that a bundle takes
	// no longer than this: a stop has to wait for the bundle it meets.
	bundleTarget = 2 * time.Second
	minPerCall   = 50
)

// smooth follows x, quickly up and slowly down.
func smooth(old, x time.Duration) time.Duration {
	switch {
	case old == 0 || x > old:
		return x
	default:
		return old + (x-old)/8
	}
}

func (p *rhythm) begin(now time.Time, elsewhere bool) {
	if elsewhere {
		p.lastEnd, p.lastBegin = time.Time{}, now
		return // the gap is not the runner's pace
	}
	if !p.lastEnd.IsZero() {
		p.gap = smooth(p.gap, now.Sub(p.lastEnd))
	}
	if !p.lastBegin.IsZero() {
		p.period = smooth(p.period, now.Sub(p.lastBegin))
		if !p.awaiting {
			p.measure(now)
		}
	}
	p.lastBegin = now
}

// leastInterval is the shortest idle time between bundles that is taken for a
// runner's own interval.
const leastInterval = 30 * time.Second

// measure finds out whether the runner keeps an interval of its own. What tells
// is the time in which nothing was to be done: a slow bundle, a slow commit or a
// delay of ours is no interval. Once a call gathers for most of the interval
// only its margin is left idle; less than that, and there is none any more.
func (p *rhythm) measure(now time.Time) {
	since := p.lastEnd
	if p.committedAt.After(since) {
		since = p.committedAt
	}
	idle := now.Sub(since) - p.resume
	switch {
	case idle >= leastInterval:
		p.interval = smooth(p.interval, now.Sub(p.lastBegin))
	case p.interval > 0 && idle < max(time.Second, p.interval/60)/2:
		p.interval = 0
	}
}

func (p *rhythm) end(now time.Time, resume time.Duration) { p.lastEnd, p.resume = now, resume }

// committed learns from a call whose bundle was committed.
func (p *rhythm) committed(began, ended time.Time, waited, took time.Duration, n int, now time.Time) {
	p.committedAt = now
	p.commit = smooth(p.commit, now.Sub(began))
	p.write = smooth(p.write, now.Sub(ended))
	p.longestCommit = max(p.longestCommit, took)
	// What the runner takes to say "committed" is not the messages' doing, nor
	// is what the call waited for them.
	p.adapt(now.Sub(began)-took-waited, n, began, now)
}

// adapt fits the limit to a bundle of n messages that took busy. A limit is
// judged only by calls that began under it: many bundles can be committed at
// once.
func (p *rhythm) adapt(busy time.Duration, n int, began, now time.Time) {
	if began.Before(p.limited) {
		return
	}
	switch {
	case busy > bundleTarget:
		p.limit = max(int(float64(n)*float64(bundleTarget)/float64(busy)), minPerCall)
	case p.limit > 0 && n >= p.limit && busy < bundleTarget/2:
		p.limit *= 2
	default:
		return
	}
	p.limited = now
}

// A Pace is what a connector may learn from a reader's rhythm.
type Pace struct {
	// Period is the time between calls, Commit that from a call's begin to its
	// commit, Write that from a call's end to its commit. Zero: not known yet.
	Period, Commit, Write time.Duration
	// Interval is the time between bundles where the runner keeps one of its own,
	// of half a minute or more; zero where it comes back whenever it is asked.
	Interval time.Duration
}

// Pace is the reader's rhythm so far.
func (r *Reader[M]) Pace() Pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Pace{Period: r.rhythm.period, Commit: r.rhythm.commit, Write: r.rhythm.write, Interval: r.rhythm.interval}
}
