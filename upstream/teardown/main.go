// Teardown is never called.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn1x0[[]byte](&fn{})
}

var setups, teardowns atomic.Int64

type fn struct{}

func (*fn) Setup()                { setups.Add(1) }
func (*fn) ProcessElement([]byte) {}
func (*fn) Teardown()             { teardowns.Add(1) }

func main() {
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &fn{}, beam.Impulse(s))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("teardown: the job failed:", err)
		os.Exit(1)
	}
	time.Sleep(time.Second) // the harness ends a little after the job
	fmt.Printf("teardown: %d calls of Setup, %d of Teardown\n", setups.Load(), teardowns.Load())
	if teardowns.Load() > 0 {
		fmt.Println("teardown: GONE")
		os.Exit(3)
	}
}
