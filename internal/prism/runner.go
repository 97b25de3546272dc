package prism

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// ErrDirectRunner is returned by CheckRunner for Beam's direct runner. What to
// do: run with --runner=prism, which needs no set-up either.
var ErrDirectRunner = errors.New("the direct runner is deprecated in Beam Go and drops process continuations, " +
	"so that an unbounded source ends after its first call; use --runner=prism, which also runs in the process")

// Captured returns the value of the program's --runner flag, "" when the
// program defines no such flag or left it empty. Workers learn their runner
// only from the flags of the program that built the pipeline, so call it while
// the pipeline is constructed and let the answer travel in a DoFn's fields.
//
// A program that names its runner in code, beam.Run(ctx, "prism", p), leaves
// no trace here: "" means unknown, not "none".
func Captured() string {
	f := flag.Lookup("runner")
	if f == nil {
		return ""
	}
	return f.Value.String()
}

// Is reports whether name names Prism. The empty name does not: see MayBe.
func Is(name string) bool {
	return strings.EqualFold(name, "prism") || strings.EqualFold(name, "PrismRunner")
}

// MayBe reports whether a job submitted under the runner name may end up on
// Prism: Prism itself, the unknown runner "", and the portable runner
// "universal", behind whose endpoint a stand-alone Prism can sit. The engines
// that have their own name (dataflow, flink, spark, samza) are not Prism.
func MayBe(name string) bool {
	for _, other := range []string{"dataflow", "flink", "spark", "samza", "direct", "dot"} {
		if strings.EqualFold(strings.TrimSuffix(strings.ToLower(name), "runner"), other) {
			return false
		}
	}
	return true
}

// CheckRunner refuses a runner on which a source of this module cannot work:
// only the direct runner, with an error that wraps ErrDirectRunner. Any other
// name is accepted, the empty one too.
func CheckRunner(name string) error {
	if strings.EqualFold(name, "direct") || strings.EqualFold(name, "DirectRunner") {
		return fmt.Errorf("checking runner %q: %w", name, ErrDirectRunner)
	}
	return nil
}
