package prism

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// runnerFlag stands in for the flag that beamx or a program of its own defines.
var runnerFlag = flag.String("runner", "", "runner of the tests")

func setRunner(t *testing.T, name string) {
	t.Helper()
	old := *runnerFlag
	*runnerFlag = name
	t.Cleanup(func() { *runnerFlag = old })
}

func TestCapturedIsTheRunnerFlag(t *testing.T) {
	if got := Captured(); got != "" {
		t.Errorf("with the flag left empty: %q, want \"\"", got)
	}
	setRunner(t, "flink")
	if got := Captured(); got != "flink" {
		t.Errorf("got %q, want flink", got)
	}
}

func TestRunnerNames(t *testing.T) {
	for _, c := range []struct {
		name               string
		is, mayBe, refused bool
	}{
		{name: "", mayBe: true},
		{name: "prism", is: true, mayBe: true},
		{name: "PrismRunner", is: true, mayBe: true},
		{name: "universal", mayBe: true},
		{name: "PortableRunner", mayBe: true},
		{name: "dataflow"},
		{name: "DataflowRunner"},
		{name: "flink"},
		{name: "FlinkRunner"},
		{name: "spark"},
		{name: "samza"},
		{name: "direct", refused: true},
		{name: "DirectRunner", refused: true},
	} {
		if got := Is(c.name); got != c.is {
			t.Errorf("Is(%q) = %v, want %v", c.name, got, c.is)
		}
		if got := MayBe(c.name); got != c.mayBe {
			t.Errorf("MayBe(%q) = %v, want %v", c.name, got, c.mayBe)
		}
		err := CheckRunner(c.name)
		if got := errors.Is(err, ErrDirectRunner); got != c.refused {
			t.Errorf("CheckRunner(%q) = %v, want refused: %v", c.name, err, c.refused)
		}
		if c.refused && !strings.Contains(err.Error(), "--runner=prism") {
			t.Errorf("CheckRunner(%q) = %v: does not say what to use instead", c.name, err)
		}
	}
}

func TestDisableSplitsKeepsTheUsersExperiments(t *testing.T) {
	for _, c := range []struct{ name, runner, have, want string }{
		{"none named", "", "", noSplits},
		{"another named", "prism", "use_x", "use_x," + noSplits},
		{"two named", "", "use_x,min=3", "use_x,min=3," + noSplits},
		{"set by the user already", "", "a," + noSplits + ",b", "a," + noSplits + ",b"},
		{"a longer name that contains it", "", noSplits + "_not", noSplits + "_not," + noSplits},
		{"padded, which Prism would not see", "", "a, " + noSplits, "a, " + noSplits + "," + noSplits},
		{"an engine of its own name", "dataflow", "use_x", "use_x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := *jobopts.Experiments
			t.Cleanup(func() { *jobopts.Experiments = old })
			setRunner(t, c.runner)
			*jobopts.Experiments = c.have
			DisableSplits()
			DisableSplits()
			if got := *jobopts.Experiments; got != c.want {
				t.Errorf("experiments %q, want %q", got, c.want)
			}
		})
	}
}

func TestOneProcessorIsTooFewOnPrismOnly(t *testing.T) {
	for _, c := range []struct {
		name, runner string
		procs        int
		want         bool
	}{
		{"one, runner unknown", "", 1, true},
		{"one, Prism", "prism", 1, true},
		{"two, Prism", "prism", 2, false},
		{"one, another engine", "flink", 1, false},
	} {
		if got := lacksProcs(c.procs, c.runner); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
