// The watermark hold of one restriction is forgotten when another restriction
// of the same source, in a bundle of its own, reports a later watermark.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn4x2[*sdf.ManualWatermarkEstimator, *sdf.LockRTracker, []byte, func(beam.EventTime, string, int64), sdf.ProcessContinuation, error](&source{})
	register.Emitter2[beam.EventTime, int64]()
	register.Emitter3[beam.EventTime, string, int64]()
	register.Iter1[int64]()
	register.Function2x0(count)
}

const (
	slots   = 4  // restrictions
	steps   = 10 // elements of each
	perSlot = 1000
)

var emitted, arrived atomic.Int64

// source reads slots restrictions. Each emits one element per call, one second
// of event time apart, and holds its watermark at the element it emits next.
// Slot 0 is the slowest.
type source struct{}

func (*source) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{End: slots * perSlot}
}

func (*source) SplitRestriction([]byte, offsetrange.Restriction) (rs []offsetrange.Restriction) {
	for i := range int64(slots) {
		rs = append(rs, offsetrange.Restriction{Start: i * perSlot, End: i*perSlot + steps})
	}
	return rs
}

func (*source) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (*source) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&whole{offsetrange.NewTracker(r)})
}

// whole refuses every split but the one of a self-checkpoint, so that what is
// lost is not the doing of the tracker.
type whole struct{ *offsetrange.Tracker }

func (t *whole) TrySplit(fraction float64) (any, any, error) {
	if fraction > 0 {
		return t.GetRestriction(), nil, nil
	}
	return t.Tracker.TrySplit(fraction)
}

func (*source) InitialWatermarkEstimatorState(beam.EventTime, offsetrange.Restriction, []byte) int64 {
	return 0
}

func (*source) CreateWatermarkEstimator(at int64) *sdf.ManualWatermarkEstimator {
	return &sdf.ManualWatermarkEstimator{State: time.UnixMilli(at)}
}

func (*source) WatermarkEstimatorState(e *sdf.ManualWatermarkEstimator) int64 {
	return e.State.UnixMilli()
}

func (*source) ProcessElement(we *sdf.ManualWatermarkEstimator, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, string, int64)) (sdf.ProcessContinuation, error) {
	pos := rt.GetRestriction().(offsetrange.Restriction).Start
	slot, step := pos/perSlot, pos%perSlot
	if slot == 0 {
		time.Sleep(400 * time.Millisecond)
	}
	if !rt.TryClaim(pos) {
		return sdf.StopProcessing(), nil
	}
	at := time.UnixMilli(step * 1000)
	emit(mtime.FromTime(at), "all", pos)
	emitted.Add(1)
	we.UpdateWatermark(at.Add(time.Second))
	return sdf.ResumeProcessingIn(10 * time.Millisecond), nil
}

func count(_ string, values func(*int64) bool) {
	var v int64
	for values(&v) {
		arrived.Add(1)
	}
}

func main() {
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	in := beam.ParDo(s, &source{}, beam.Impulse(s))
	in = beam.WindowInto(s, window.NewFixedWindows(time.Second), in)
	beam.ParDo0(s, count, beam.GroupByKey(s, in))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("holds: the job failed:", err)
		os.Exit(1)
	}
	fmt.Printf("holds: %d emitted, %d grouped\n", emitted.Load(), arrived.Load())
	if emitted.Load() == arrived.Load() {
		fmt.Println("holds: GONE")
		os.Exit(3)
	}
}
