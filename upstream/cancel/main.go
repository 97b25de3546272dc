// Cancelling the context of beam.Run ends the process in a panic.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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

func wait(_ []byte, _ func(int64)) { time.Sleep(2 * time.Second) }
func sink(int64)                   {}

// once runs the job under a context that ends before it.
func once() {
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, sink, beam.Reshuffle(s, beam.ParDo(s, wait, beam.Impulse(s))))
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_, err := beam.Run(ctx, "prism", p)
	fmt.Println("beam.Run returned:", err)
	time.Sleep(time.Second) // the panic comes from another goroutine
}

// main runs itself, because a panic ends the process, and more than once,
// because the panic races with the end of the job.
func main() {
	if len(os.Args) > 1 {
		once()
		return
	}
	const runs = 6
	panics := 0
	for range runs {
		out, err := exec.Command(os.Args[0], "once").CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("panic: rpc error")) {
			panics++
		}
	}
	fmt.Printf("cancel: %d of %d runs ended in a panic\n", panics, runs)
	if panics == 0 {
		fmt.Println("cancel: GONE")
		os.Exit(3)
	}
}
