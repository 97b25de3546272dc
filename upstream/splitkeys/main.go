// A split bundle of a stateful stage runs a key twice at once and loses state.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn4x1[state.Provider, string, int64, func(int64), error](&counter{})
	register.Emitter1[int64]()
	register.Function2x0(expand)
	register.Emitter2[string, int64]()
	register.Function1x0(sink)
}

const elements = 8

var whole = flag.Bool("whole", false, "leave bundles whole (the work-around)")

var highest, running, together atomic.Int64

// counter counts the elements of a key in state and sits still for longer than
// Prism's two progress ticks.
type counter struct{ N state.Value[int64] }

func (f *counter) ProcessElement(sp state.Provider, _ string, _ int64, emit func(int64)) error {
	if running.Add(1) > 1 {
		together.Add(1)
	}
	defer running.Add(-1)
	n, _, err := f.N.Read(sp)
	if err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	n++
	if n > highest.Load() {
		highest.Store(n)
	}
	emit(n)
	return f.N.Write(sp, n)
}

func expand(_ []byte, emit func(string, int64)) {
	for i := range int64(elements) {
		emit("key", i)
	}
}

func sink(int64) {}

func main() {
	flag.Parse()
	beam.Init()
	if *whole {
		*jobopts.Experiments = "prism_disable_sdf_split"
	}
	p, s := beam.NewPipelineWithRoot()
	kvs := beam.ParDo(s, expand, beam.Impulse(s))
	beam.ParDo0(s, sink, beam.ParDo(s, &counter{N: state.MakeValueState[int64]("n")}, kvs))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("splitkeys: the job failed:", err)
		return
	}
	fmt.Printf("splitkeys: %d elements of one key, counted %d; the key ran beside itself %d times\n", elements, highest.Load(), together.Load())
	if !*whole && highest.Load() == elements {
		fmt.Println("splitkeys: GONE")
		os.Exit(3)
	}
}
