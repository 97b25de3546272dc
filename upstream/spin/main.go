// A stage without an output keeps a core busy for as long as its bundle lasts.
package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.Function2x0(wait)
	register.Emitter1[int64]()
	register.Function1x0(sink)
}

const nap = 3 * time.Second

// wait stands for a source that waits for messages in its call.
func wait(_ []byte, _ func(int64)) { time.Sleep(nap) }
func sink(int64)                   {}

func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// share returns the job's use of the processor, 1 = one core.
func share(escape bool) float64 {
	p, s := beam.NewPipelineWithRoot()
	col := beam.ParDo(s, wait, beam.Impulse(s))
	if escape {
		col = beam.Reshuffle(s, col)
	}
	beam.ParDo0(s, sink, col)
	before := used()
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("spin: the job failed:", err)
		os.Exit(1)
	}
	return float64(used()-before) / float64(nap)
}

func main() {
	beam.Init()
	with, without := share(true), share(false)
	fmt.Printf("spin: %.1f %% of a core without an output of the stage, %.1f %% with one\n", 100*without, 100*with)
	if without < 2*with {
		fmt.Println("spin: GONE")
		os.Exit(3)
	}
}
