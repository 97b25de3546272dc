package queue

import (
	"fmt"
	"sync/atomic"
)

// A Restriction is one consumer slot of a queue. It holds no position: the
// broker keeps that.
type Restriction struct {
	// Slot is the number of the reader group, from 0.
	Slot int64
	// Epoch counts the self-checkpoints. A call that starts with an epoch seen
	// before tells that the runner went back to an earlier checkpoint.
	Epoch int64
	// Done marks a slot that is read to its end, drained or truncated.
	Done bool
	// By names the reader whose call made this the residual, 0 at first. A reader
	// that finds another one's name knows that the slot was read elsewhere.
	By int64
}

// Slots are the n initial restrictions.
func Slots(n int) []Restriction {
	out := make([]Restriction, max(n, 1))
	for i := range out {
		out[i].Slot = int64(i)
	}
	return out
}

// A Tracker claims for a Restriction. It is not safe for concurrent use; wrap
// it in sdf.NewLockRTracker.
type Tracker struct {
	r       Restriction
	backlog func() int64
	stopped chan struct{}
	by      atomic.Int64 // the reader of the call, 0 before Begin
}

// NewTracker tracks r. backlog, which may be nil, estimates what is left to
// read, in messages.
func NewTracker(r Restriction, backlog func() int64) *Tracker {
	t := &Tracker{r: r, backlog: backlog, stopped: make(chan struct{})}
	if r.Done {
		close(t.stopped)
	}
	return t
}

// Stopped is closed once nothing more can be claimed.
func (t *Tracker) Stopped() <-chan struct{} { return t.stopped }

// Finish marks the slot as read to its end.
func (t *Tracker) Finish() {
	t.r.Done = true
	t.stop()
}

func (t *Tracker) stop() {
	select {
	case <-t.stopped:
	default:
		close(t.stopped)
	}
}

// TryClaim allows one more message until the restriction was split or finished.
// The position is not looked at: a queue has none.
func (t *Tracker) TryClaim(any) bool {
	select {
	case <-t.stopped:
		return false
	default:
		return true
	}
}

// GetError is always nil: no claim is an error.
func (t *Tracker) GetError() error { return nil }

// TrySplit refuses fractions: a queue's rest cannot be divided by position, and
// Prism loses watermark holds of split bundles. Fraction 0, the checkpoint,
// ends the call at once and leaves everything to the residual.
func (t *Tracker) TrySplit(fraction float64) (any, any, error) {
	if fraction > 0 || t.IsDone() {
		return t.r, nil, nil
	}
	residual := Restriction{Slot: t.r.Slot, Epoch: t.r.Epoch, By: t.r.By}
	if by := t.by.Load(); by != 0 {
		residual.Epoch, residual.By = t.r.Epoch+1, by
	}
	t.Finish()
	return t.r, residual, nil
}

// GetProgress tells nothing done and the backlog, at least one, remaining.
func (t *Tracker) GetProgress() (done, remaining float64) {
	if t.IsDone() {
		return 1, 0
	}
	if t.backlog == nil {
		return 0, 1
	}
	return 0, float64(max(t.backlog(), 1))
}

// IsDone tells whether the restriction has nothing left for this bundle.
func (t *Tracker) IsDone() bool { return t.r.Done }

// GetRestriction is the restriction as it stands.
func (t *Tracker) GetRestriction() any { return t.r }

// IsBounded is false until the slot is finished: a drain has to truncate it.
func (t *Tracker) IsBounded() bool { return t.r.Done }

func (t *Tracker) String() string {
	return fmt.Sprintf("slot %d, epoch %d, done %v", t.r.Slot, t.r.Epoch, t.r.Done)
}
