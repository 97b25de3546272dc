package prism

import (
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

// The DoFns whose jobs show the faults; upstream_test.go runs them.

const (
	spinTime    = 800 * time.Millisecond
	keyElements = 4
	keyPause    = 250 * time.Millisecond // over two of Prism's progress ticks

	slots        = 3
	slotSteps    = 4
	slotSpan     = 1000
	holdElements = slots * slotSteps
)

func init() {
	register.DoFn2x0[[]byte, func(int64)](&waitFn{})
	register.DoFn4x1[state.Provider, string, int64, func(int64), error](&countFn{})
	register.DoFn4x0[timers.Provider, string, int64, func(int64)](&oneFamily{})
	register.DoFn4x0[timers.Provider, string, int64, func(int64)](&twoFamilies{})
	register.DoFn4x2[*sdf.ManualWatermarkEstimator, *sdf.LockRTracker, []byte, func(beam.EventTime, string, int64), sdf.ProcessContinuation, error](&slotsFn{})
	register.Emitter1[int64]()
	register.Emitter2[string, int64]()
	register.Emitter3[beam.EventTime, string, int64]()
	register.Iter1[int64]()
	register.Function2x0(expandKey)
	register.Function1x0(discardCount)
	register.Function2x0(countGroup)
}

// waitFn stands for a source that waits for messages in its call.
type waitFn struct{ Wait time.Duration }

func (f *waitFn) ProcessElement(_ []byte, _ func(int64)) { time.Sleep(f.Wait) }

func expandKey(_ []byte, emit func(string, int64)) {
	for i := range int64(keyElements) {
		emit("key", i)
	}
}

func discardCount(int64) {}

var highestCount atomic.Int64

// countFn counts its key's elements in state and sits still meanwhile.
type countFn struct{ N state.Value[int64] }

func (f *countFn) ProcessElement(sp state.Provider, _ string, _ int64, emit func(int64)) error {
	n, _, err := f.N.Read(sp)
	if err != nil {
		return err
	}
	time.Sleep(keyPause)
	n++
	if n > highestCount.Load() {
		highestCount.Store(n)
	}
	emit(n)
	return f.N.Write(sp, n)
}

type oneFamily struct{ A timers.ProcessingTime }

func (f *oneFamily) ProcessElement(tp timers.Provider, _ string, _ int64, _ func(int64)) {
	f.A.Set(tp, time.Now())
}

func (f *oneFamily) OnTimer(_ timers.Provider, _ string, _ timers.Context, emit func(int64)) {
	emit(1)
}

type twoFamilies struct{ A, B timers.ProcessingTime }

func (f *twoFamilies) ProcessElement(tp timers.Provider, _ string, _ int64, _ func(int64)) {
	f.A.Set(tp, time.Now())
}

func (f *twoFamilies) OnTimer(_ timers.Provider, _ string, _ timers.Context, emit func(int64)) {
	emit(1)
}

var groupedElements atomic.Int64

func countGroup(_ string, values func(*int64) bool) {
	var v int64
	for values(&v) {
		groupedElements.Add(1)
	}
}

// slotsFn reads restrictions that emit one element per call, one second of
// event time apart, and hold the watermark at the next one. The first sits
// still, so that Prism moves the others to a bundle of their own. With One
// there is a single restriction that emits as much.
type slotsFn struct{ One bool }

func (*slotsFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: holdElements}
}

func (f *slotsFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	if f.One {
		return []offsetrange.Restriction{r}
	}
	var rs []offsetrange.Restriction
	for i := range int64(slots) {
		rs = append(rs, offsetrange.Restriction{Start: i * slotSpan, End: i*slotSpan + slotSteps})
	}
	return rs
}

func (*slotsFn) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (*slotsFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&queueTracker{offsetrange.NewTracker(r)})
}

// queueTracker splits only when a call ends, as the trackers of queues do.
type queueTracker struct{ *offsetrange.Tracker }

func (t *queueTracker) TrySplit(fraction float64) (primary, residual any, err error) {
	if fraction > 0 {
		return t.GetRestriction(), nil, nil
	}
	return t.Tracker.TrySplit(fraction)
}

func (*slotsFn) InitialWatermarkEstimatorState(beam.EventTime, offsetrange.Restriction, []byte) int64 {
	return 0
}

func (*slotsFn) CreateWatermarkEstimator(at int64) *sdf.ManualWatermarkEstimator {
	return &sdf.ManualWatermarkEstimator{State: time.UnixMilli(at)}
}

func (*slotsFn) WatermarkEstimatorState(e *sdf.ManualWatermarkEstimator) int64 {
	return e.State.UnixMilli()
}

func (*slotsFn) ProcessElement(we *sdf.ManualWatermarkEstimator, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, string, int64)) (sdf.ProcessContinuation, error) {
	position := rt.GetRestriction().(offsetrange.Restriction).Start
	slot, step := position/slotSpan, position%slotSpan
	if slot == 0 && step < 2 {
		time.Sleep(2 * keyPause)
	}
	if !rt.TryClaim(position) {
		return sdf.StopProcessing(), nil
	}
	at := time.UnixMilli(step * 1000)
	emit(mtime.FromTime(at), "all", position)
	we.UpdateWatermark(at.Add(time.Second))
	return sdf.ResumeProcessingIn(10 * time.Millisecond), nil
}
