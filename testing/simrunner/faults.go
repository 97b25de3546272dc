package simrunner

import (
	"maps"
	"math/rand/v2"
	"time"
)

// A Fault is something that goes wrong in the runner.
type Fault string

// The faults of the runner. Not every one exists in both modes.
const (
	// FailInElement: the bundle fails in the middle of ProcessElement.
	FailInElement Fault = "bundle fails in ProcessElement"
	// FailAfterElement: the bundle fails after ProcessElement.
	FailAfterElement Fault = "bundle fails after ProcessElement"
	// RefuseCommit (Dataflow): the bundle succeeds and its commit fails.
	RefuseCommit Fault = "commit refused"
	// CommitLate: the commit, or the checkpoint, takes longer than a lease.
	CommitLate Fault = "commit late"
	// CommitTwice: the finalization is delivered twice.
	CommitTwice Fault = "commit twice"
	// CommitNever: the finalization is lost.
	CommitNever Fault = "commit never"
	// CheckpointCall: the runner checkpoints the restriction during the call.
	CheckpointCall Fault = "checkpoint during the call"
	// SplitCall: the runner splits the restriction at a fraction.
	SplitCall Fault = "split at a fraction"
	// Move: a residual goes to another worker, and the old one hears no more.
	Move Fault = "residual moved"
	// Zombie: two calls run with the same restriction.
	Zombie Fault = "zombie"
	// Drain: the job is drained and a new one reads on.
	Drain Fault = "drain"
	// Kill: a worker dies.
	Kill Fault = "worker killed"
	// Abort (Flink): a checkpoint does not complete.
	Abort Fault = "checkpoint aborted"
	// Restore (Flink): the job went back to its last checkpoint, whatever the
	// cause. Its rate is that of a failure elsewhere in the job.
	Restore Fault = "restored"
	// BehindBarrier (Flink) counts bundles that were finalized with a checkpoint
	// that does not hold them. It is Flink's rule and has no rate.
	BehindBarrier Fault = "finalized behind the barrier"
)

// Rates are probabilities by fault: of a checkpoint for Abort and CommitLate in
// Flink mode, of a run for Drain, of a bundle for the others.
type Rates map[Fault]float64

// AllFaults are rates at which each fault strikes every few runs of a minute or
// two.
func AllFaults(m Mode) Rates {
	r := Rates{
		FailInElement: 0.015, FailAfterElement: 0.015, CommitTwice: 0.04, CommitNever: 0.02,
		CheckpointCall: 0.08, SplitCall: 0.04, Drain: 0.4, Kill: 0.01,
	}
	switch m {
	case Flink:
		maps.Copy(r, Rates{CommitLate: 0.06, Abort: 0.08, Restore: 0.01})
	case Dataflow:
		maps.Copy(r, Rates{
			RefuseCommit: 0.03, CommitLate: 0.05, CommitNever: 0.1, Move: 0.08, Zombie: 0.04,
			FailInElement: 0.04, FailAfterElement: 0.04, Kill: 0.02,
		})
	}
	return r
}

// Faults are the faults that AllFaults strikes with in a mode, and those that
// follow from them.
func Faults(m Mode) []Fault {
	all := []Fault{
		FailInElement, FailAfterElement, CommitLate, CommitTwice, CommitNever, CheckpointCall, SplitCall, Move, Zombie,
		Drain, Kill,
	}
	if m == Flink {
		return append(all, Abort, Restore, BehindBarrier)
	}
	return append(all, RefuseCommit)
}

// A plan is what happens to one bundle.
type plan struct {
	rng       *rand.Rand
	failAt    int // fails at this element
	killAt    int // worker dies at this element
	failAfter bool
	refuse    bool
	late      time.Duration
	twice     bool
	never     bool
	cut       time.Duration // checkpoint after
	split     time.Duration // split after
	fraction  float64
	move      bool
	zombie    time.Duration // second call after
	elsewhere bool          // on another worker
	restore   time.Duration // the job fails after
	slow      int           // every so many elements the sink takes a moment
	open      time.Duration // Flink: least length of the bundle
}

// draw makes the plan of the n-th bundle. Each bundle has a generator of its
// own, so that what happened before changes little.
func (s *sim) draw(n int) plan {
	rng := rand.New(rand.NewPCG(s.cfg.Seed, uint64(n)<<8|1))
	p := plan{rng: rng, open: time.Duration(200+rng.IntN(800)) * time.Millisecond}
	hit := func(f Fault) bool { return rng.Float64() < s.cfg.Faults[f] && !s.quiet }
	during := func() time.Duration { return time.Duration(1+rng.IntN(1500)) * time.Millisecond }
	if hit(FailInElement) {
		p.failAt = 1 + rng.IntN(60)
	}
	if hit(Kill) {
		p.killAt = 1 + rng.IntN(60)
	}
	p.failAfter, p.refuse = hit(FailAfterElement), hit(RefuseCommit)
	if hit(CommitLate) {
		p.late = 35*time.Second + time.Duration(rng.IntN(10000))*time.Millisecond
	}
	p.twice, p.never = hit(CommitTwice), hit(CommitNever)
	if hit(CheckpointCall) {
		p.cut = during()
	}
	if hit(SplitCall) {
		p.split, p.fraction = during(), rng.Float64()
	}
	p.move = hit(Move)
	if hit(Zombie) {
		p.zombie, p.elsewhere = during(), rng.IntN(2) == 0
	}
	if hit(Restore) {
		p.restore = during()
	}
	if rng.IntN(4) == 0 {
		p.slow = 5 + rng.IntN(40)
	}
	return p
}
