package prism

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// The tests of this file tell when a fault of Prism is gone, and that our way
// around it works. Each fault shows itself in a process of its own, the test
// binary started again with childEnv set: a job that hangs, or one whose
// experiments are set, must not reach the other tests.

const childEnv = "BEAM_BROKERS_PRISM_CHILD"

func TestMain(m *testing.M) {
	run, child := children[os.Getenv(childEnv)]
	if !child {
		os.Exit(m.Run())
	}
	beam.Init()
	run()
}

// children are the programs of the child processes; what they print is what
// the tests judge.
var children = map[string]func(){
	"spin": func() {
		// First a run that pays for the start: server, stubs, first job.
		busy(0, true)
		fmt.Printf("with %.4f\n", busy(spinTime, true))
		fmt.Printf("without %.4f\n", busy(spinTime, false))
	},
	"split": func() { fmt.Println("counted", countOneKey()) },
	"whole": func() {
		DisableSplits()
		fmt.Println("counted", countOneKey())
	},
	"timers": func() {
		mustRun(timerPipeline(&oneFamily{A: timers.InProcessingTime("a")}))
		fmt.Println("one ended")
		mustRun(timerPipeline(&twoFamilies{A: timers.InProcessingTime("a"), B: timers.InProcessingTime("b")}))
		fmt.Println("two ended")
	},
	"holds": func() { fmt.Println("grouped", holdsPipeline(false)) },
	"one":   func() { fmt.Println("grouped", holdsPipeline(true)) },
}

// child starts the program name and returns a scanner of its lines; it is
// killed and waited for when the test ends.
func child(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("piping child %q: %v", name, err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting child %q: %v", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("child %q said: %s", name, stderr.String())
		}
	})
	return bufio.NewScanner(out)
}

// next scans the number in the child's next line, which must begin with word.
func next[T int | float64](t *testing.T, lines *bufio.Scanner, word string) T {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the child ended before it said %q", word)
	}
	var v T
	if _, err := fmt.Sscanf(lines.Text(), word+" %v", &v); err != nil {
		t.Fatalf("the child said %q, want %q and a number", lines.Text(), word)
	}
	return v
}

// A stage without an output makes Prism spin; Escape stops it. Processor time
// does not depend on how busy the machine is, but the share that a spinning
// process gets does: hence a ratio, and three tries.
func TestUpstreamSpinStillThereAndEscapeStopsIt(t *testing.T) {
	for try := 1; ; try++ {
		lines := child(t, "spin")
		with := next[float64](t, lines, "with")
		without := next[float64](t, lines, "without")
		t.Logf("share of a core: %.3f without an output of the stage, %.3f with Escape", without, with)
		if without > 2*with {
			return
		}
		if try == 3 {
			t.Fatal("Prism no longer spins on a stage without an output (then remove Escape), or Escape no longer helps")
		}
	}
}

// A key of a split bundle runs twice at once and state is lost.
func TestUpstreamSplitStillLosesState(t *testing.T) {
	if got := next[int](t, child(t, "split"), "counted"); got == keyElements {
		t.Fatal("Prism no longer loses state in a split bundle: remove DisableSplits")
	}
}

func TestDisableSplitsKeepsState(t *testing.T) {
	if got := next[int](t, child(t, "whole"), "counted"); got != keyElements {
		t.Fatalf("counted %d elements of one key, want %d", got, keyElements)
	}
}

// A DoFn with two timer families never ends. One with a single family, in the
// same process just before, shows how long a job takes here.
func TestUpstreamTwoTimerFamiliesStillHang(t *testing.T) {
	lines := child(t, "timers")
	said := make(chan string)
	go func() { // ends with the child
		defer close(said)
		for lines.Scan() {
			select {
			case said <- lines.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	began := time.Now()
	if line := <-said; line != "one ended" {
		t.Fatalf("the child said %q, want that the job with one family ended", line)
	}
	limit := time.NewTimer(max(time.Second, 3*time.Since(began)))
	defer limit.Stop()
	select {
	case line := <-said:
		if line == "two ended" {
			t.Fatal("two timer families work now: the rule of one family per DoFn can go")
		}
		t.Fatalf("the job with two families failed in another way: %q", line)
	case <-limit.C:
	}
}

// The watermark hold of a restriction is forgotten when another one, in a
// bundle of its own, reports a later watermark.
func TestUpstreamHoldsStillLost(t *testing.T) {
	if got := next[int](t, child(t, "holds"), "grouped"); got == holdElements {
		t.Fatal("Prism keeps watermark holds across bundles now: several restrictions of a source are safe")
	}
}

// One restriction, which is what a source of ours has on Prism, is safe.
func TestOneRestrictionKeepsItsHold(t *testing.T) {
	if got := next[int](t, child(t, "one"), "grouped"); got != holdElements {
		t.Fatalf("grouped %d elements, want %d", got, holdElements)
	}
}

func mustRun(p *beam.Pipeline) {
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// busy returns the share of a core that a job takes whose only bundle waits.
func busy(wait time.Duration, escape bool) float64 {
	p, s := beam.NewPipelineWithRoot()
	col := beam.ParDo(s, &waitFn{Wait: wait}, beam.Impulse(s))
	if escape {
		Escape(s, col)
	}
	before := processorTime()
	mustRun(p)
	return float64(processorTime()-before) / float64(spinTime)
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// countOneKey counts keyElements elements of one key in state, slowly enough
// for Prism to split the bundle, and returns the highest count.
func countOneKey() int64 {
	p, s := beam.NewPipelineWithRoot()
	pairs := beam.ParDo(s, expandKey, beam.Impulse(s))
	counted := beam.ParDo(s, &countFn{N: state.MakeValueState[int64]("n")}, pairs)
	beam.ParDo0(s, discardCount, counted)
	mustRun(p)
	return highestCount.Load()
}

func timerPipeline(fn any) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	pairs := beam.ParDo(s, expandKey, beam.Impulse(s))
	beam.ParDo0(s, discardCount, beam.ParDo(s, fn, pairs))
	return p
}

// holdsPipeline groups the elements of a source in windows of a second and
// returns how many came out of the group.
func holdsPipeline(one bool) int64 {
	p, s := beam.NewPipelineWithRoot()
	in := beam.ParDo(s, &slotsFn{One: one}, beam.Impulse(s))
	in = beam.WindowInto(s, window.NewFixedWindows(time.Second), in)
	beam.ParDo0(s, countGroup, beam.GroupByKey(s, in))
	mustRun(p)
	return groupedElements.Load()
}
