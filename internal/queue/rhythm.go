package queue

import "time"

// A rhythm is what a Reader has learnt about the runner's pace.
type rhythm struct {
	lastBegin, lastEnd time.Time
	gap                time.Duration // from a call's end to the next call's begin
	period             time.Duration // from begin to begin
	commit             time.Duration // from a call's begin to its commit
	write              time.Duration // from a call's end to its commit
	longestCommit      time.Duration // from a bundle's end to its commit
	perMessage         time.Duration // bundle time per message, where bundles are slow
}

// smooth follows x, quickly up and slowly down.
func smooth(old, x time.Duration) time.Duration {
	switch {
	case old == 0 || x > old:
		return x
	default:
		return old + (x-old)/8
	}
}

func (p *rhythm) begin(now time.Time) {
	if !p.lastEnd.IsZero() {
		p.gap = smooth(p.gap, now.Sub(p.lastEnd))
	}
	if !p.lastBegin.IsZero() {
		p.period = smooth(p.period, now.Sub(p.lastBegin))
	}
	p.lastBegin = now
}

func (p *rhythm) end(now time.Time) { p.lastEnd = now }

func (p *rhythm) committed(sinceBegin, sinceEnd, took time.Duration, n int) {
	p.commit = smooth(p.commit, sinceBegin)
	p.write = smooth(p.write, sinceEnd)
	p.longestCommit = max(p.longestCommit, took)
	// What the runner takes to say "committed" is not the messages' doing.
	each := (sinceBegin - took) / time.Duration(n)
	if p.perMessage == 0 {
		p.perMessage = each
	}
	p.perMessage += (each - p.perMessage) / 4
}

// perCall is how many messages make a bundle of bundleTarget, 0 for no limit.
func (p *rhythm) perCall() int {
	if p.perMessage <= 0 {
		return 0
	}
	return max(int(bundleTarget/p.perMessage), minPerCall)
}

// A Pace is what a connector may learn from a reader's rhythm.
type Pace struct {
	// Period is the time between calls, Commit that from a call's begin to its
	// commit, Write that from a call's end to its commit. Zero: not known yet.
	Period, Commit, Write time.Duration
}

// Pace is the reader's rhythm so far.
func (r *Reader[M]) Pace() Pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Pace{Period: r.rhythm.period, Commit: r.rhythm.commit, Write: r.rhythm.write}
}
