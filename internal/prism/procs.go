package prism

import (
	"log/slog"
	"runtime"
	"sync"
)

var procsOnce sync.Once

// WarnProcs warns, once in the process, when the pipeline may run on Prism
// with a single Go processor. Between the last data of a bundle and its
// response Prism waits in a busy loop; with one processor the response then
// waits for the scheduler's 10 ms preemption, which bounds a source to about
// 160 bundles a second (1,100 with two; more than two make no difference once
// the stage has an output that leaves it, see Escape). The library never
// changes GOMAXPROCS itself: it belongs to the program.
func WarnProcs() {
	if lacksProcs(runtime.GOMAXPROCS(0), Captured()) {
		procsOnce.Do(func() {
			slog.Warn("GOMAXPROCS is 1: Prism then needs up to 10 ms for each bundle, because it waits in a loop; set GOMAXPROCS=2 or more")
		})
	}
}

// lacksProcs reports whether n processors are too few on the runner.
func lacksProcs(n int, runner string) bool { return n < 2 && MayBe(runner) }
