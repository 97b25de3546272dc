// A DoFn with two timer families never ends.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

func init() {
	register.DoFn4x0[timers.Provider, string, int64, func(int64)](&one{})
	register.DoFn4x0[timers.Provider, string, int64, func(int64)](&two{})
	register.Emitter1[int64]()
	register.Function1x2(key)
	register.Function1x0(sink)
}

type one struct{ A timers.ProcessingTime }

func (f *one) ProcessElement(tp timers.Provider, _ string, _ int64, _ func(int64)) {
	f.A.Set(tp, time.Now())
}

func (f *one) OnTimer(_ timers.Provider, _ string, _ timers.Context, emit func(int64)) { emit(1) }

type two struct{ A, B timers.ProcessingTime }

func (f *two) ProcessElement(tp timers.Provider, _ string, _ int64, _ func(int64)) {
	f.A.Set(tp, time.Now())
}

func (f *two) OnTimer(_ timers.Provider, _ string, _ timers.Context, emit func(int64)) { emit(1) }

func key(v int64) (string, int64) { return "key", v }
func sink(int64)                  {}

func run(fn any) error {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, sink, beam.ParDo(s, fn, beam.ParDo(s, key, beam.Create(s, int64(1), int64(2)))))
	_, err := beam.Run(context.Background(), "prism", p)
	return err
}

func main() {
	beam.Init()
	began := time.Now()
	if err := run(&one{A: timers.InProcessingTime("a")}); err != nil {
		fmt.Println("twotimers: one family failed:", err)
		os.Exit(1)
	}
	fmt.Println("twotimers: one family ended after", time.Since(began).Round(time.Millisecond))
	ended := make(chan error, 1)
	go func() { ended <- run(&two{A: timers.InProcessingTime("a"), B: timers.InProcessingTime("b")}) }()
	limit := time.NewTimer(10 * time.Second)
	select {
	case err := <-ended:
		fmt.Println("twotimers: two families ended:", err)
		fmt.Println("twotimers: GONE")
		os.Exit(3)
	case <-limit.C:
		fmt.Println("twotimers: two families did not end in 10s")
	}
}
