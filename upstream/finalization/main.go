// Callbacks of beam.BundleFinalization run only for the first bundle of a plan.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn4x2[beam.BundleFinalization, *sdf.LockRTracker, []byte, func(int64), sdf.ProcessContinuation, error](&source{})
	register.Emitter1[int64]()
	register.Function1x0(sink)
}

var registered, ran atomic.Int64

type source struct{}

func (*source) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{End: 20}
}

func (*source) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (*source) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (*source) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

// ProcessElement makes a bundle of each position.
func (*source) ProcessElement(bf beam.BundleFinalization, rt *sdf.LockRTracker, _ []byte, emit func(int64)) (sdf.ProcessContinuation, error) {
	pos := rt.GetRestriction().(offsetrange.Restriction).Start
	if !rt.TryClaim(pos) {
		return sdf.StopProcessing(), nil
	}
	registered.Add(1)
	bf.RegisterCallback(time.Minute, func() error { ran.Add(1); return nil })
	emit(pos)
	return sdf.ResumeProcessingIn(0), nil
}

func sink(int64) {}

func main() {
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, sink, beam.ParDo(s, &source{}, beam.Impulse(s)))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("finalization: the job failed:", err)
		os.Exit(1)
	}
	fmt.Printf("finalization: %d callbacks registered, %d run\n", registered.Load(), ran.Load())
	if ran.Load() == registered.Load() {
		fmt.Println("finalization: GONE")
		os.Exit(3)
	}
}
