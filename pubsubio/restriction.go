package pubsubio

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// A restriction is one consumer slot of the subscription; all that is to know
// of it is in queue.Restriction. The subscription keeps the position.

// CreateInitialRestriction is the first slot; SplitRestriction makes the others.
func (f *readFn) CreateInitialRestriction([]byte) queue.Restriction { return queue.Restriction{} }

// SplitRestriction makes MaxWorkers slots. Prism gets one: it is a single
// process, and runs the slots of a source one after another.
func (f *readFn) SplitRestriction(ctx context.Context, _ []byte, r queue.Restriction) []queue.Restriction {
	switch {
	case r.Done:
		return []queue.Restriction{r}
	case f.Config.Runner != "dataflow" && commit.PolicyFor(ctx, f.Config.Runner) == commit.AtFinalize:
		return queue.Slots(1)
	default:
		return queue.Slots(f.Config.MaxWorkers)
	}
}

// RestrictionSize is the same for every slot: the service does not tell its
// backlog.
func (f *readFn) RestrictionSize(_ []byte, r queue.Restriction) float64 {
	if r.Done {
		return 0
	}
	return 1
}

// CreateTracker tracks a slot.
func (f *readFn) CreateTracker(r queue.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(queue.NewTracker(r, nil))
}

// TruncateRestriction ends the slot when the job drains. Its reader gives back
// what it holds when no bundle visits it any more.
func (f *readFn) TruncateRestriction(rt *sdf.LockRTracker, _ []byte) queue.Restriction {
	r := rt.GetRestriction().(queue.Restriction)
	r.Done = true
	return r
}

// InitialWatermarkEstimatorState knows nothing yet.
func (f *readFn) InitialWatermarkEstimatorState(beam.EventTime, queue.Restriction, []byte) queue.WatermarkState {
	return queue.InitialState()
}

// CreateWatermarkEstimator goes on where a bundle has left off.
func (f *readFn) CreateWatermarkEstimator(s queue.WatermarkState) *queue.Estimator {
	return queue.NewEstimator(s)
}

// WatermarkEstimatorState is where the next bundle goes on.
func (f *readFn) WatermarkEstimatorState(e *queue.Estimator) queue.WatermarkState { return e.State() }
