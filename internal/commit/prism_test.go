package commit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(int64), sdf.ProcessContinuation, error](&prismSource{})
	register.Emitter1[int64]()
	register.Function1x1(prismSink)
}

// prismBundles is how many bundles a source of the test makes of itself.
const prismBundles = 40

// heard is what the sources were told, by source and position. Worker and test
// share the process.
var heard struct {
	sync.Mutex
	outcomes map[string][]Outcome
	workers  map[string]string
}

// prismSource emits one position in each bundle and registers for it.
type prismSource struct{ Name string }

func (*prismSource) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: prismBundles}
}

func (*prismSource) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (*prismSource) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (*prismSource) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (s *prismSource) ProcessElement(ctx context.Context, _ beam.BundleFinalization, rt *sdf.LockRTracker, _ []byte, emit func(int64)) (sdf.ProcessContinuation, error) {
	position := rt.GetRestriction().(offsetrange.Restriction).Start
	if !rt.TryClaim(position) {
		return sdf.StopProcessing(), nil
	}
	name := fmt.Sprintf("%s/%d", s.Name, position)
	heard.Lock()
	heard.workers[s.Name] = WorkerID(ctx)
	heard.Unlock()
	Register(ctx, Bundle{Slot: s.Name, Policy: PolicyFor(ctx, ""), Done: func(o Outcome, _ time.Duration) {
		heard.Lock()
		defer heard.Unlock()
		heard.outcomes[name] = append(heard.outcomes[name], o)
	}})
	emit(position)
	return sdf.ResumeProcessingIn(0), nil
}

func prismSink(x int64) int64 { return x }

func runOnPrism(name string) error {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo(s, prismSink, beam.ParDo(s, &prismSource{Name: name}, beam.Impulse(s)))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// TestOnPrism runs one job, then two at once, whose bundles have the same ids.
func TestOnPrism(t *testing.T) {
	if !beam.Initialized() {
		beam.Init()
	}
	if err := Enable(); err != nil {
		t.Fatal(err)
	}
	heard.outcomes, heard.workers = map[string][]Outcome{}, map[string]string{}
	if err := runOnPrism("alone"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for _, name := range []string{"left", "right"} {
		go func() { errs <- runOnPrism(name) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	bundles.mu.Lock()
	for bundles.running || len(bundles.calls) > 0 {
		bundles.idle.Wait()
	}
	bundles.mu.Unlock()
	bundles.wantEmpty(t)
	heard.Lock()
	defer heard.Unlock()
	if w := heard.workers; w["left"] == w["right"] || w["left"] == "" {
		t.Errorf("workers %v: the ids must tell two jobs apart", w)
	}
	if n := len(heard.outcomes); n != 3*prismBundles {
		t.Errorf("%d bundles heard of, want %d", n, 3*prismBundles)
	}
	for name, got := range heard.outcomes {
		if len(got) != 1 || got[0] != Committed {
			t.Errorf("%s: outcomes %v", name, got)
		}
	}
}
