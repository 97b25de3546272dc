package pubsubsim_test

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/pubsubsim"
	"github.com/beam-brokers/beam-brokers/testing/simrunner"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	// Faults make the source complain all the time.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// TestFieldCases are cases of others' bug reports that need a runner which does
// not commit. Each has one fault only, so that more can be asked for than
// testing/simrunner asks with every fault on.
func TestFieldCases(t *testing.T) {
	cases := []struct {
		name   string
		change func(*simrunner.Config)
		check  func(*testing.T, *simrunner.Result)
	}{
		{"F01: every third finalization is lost", only(simrunner.CommitNever, 0.33), nil},
		{"F02: every fourth bundle fails before its commit", only(simrunner.FailAfterElement, 0.25), nil},
		{"F02: every fourth bundle fails in the middle", only(simrunner.FailInElement, 0.25), nil},
		{"F16: the watermark of an idle source follows the clock", func(c *simrunner.Config) {
			only("", 0)(c)
			c.Idle = time.Minute
		}, idleWatermark},
		{"F19: every commit comes after 35 s, with leases of 10 s", func(c *simrunner.Config) {
			only(simrunner.CommitLate, 1)(c)
			c.CommitTimeout = pubsubsim.CommitTimeout
		}, noDuplicates},
		{"splits and checkpoints of running calls", func(c *simrunner.Config) {
			only(simrunner.CheckpointCall, 0.5)(c)
			c.Faults[simrunner.SplitCall] = 0.5
		}, noDuplicates},
		{"finalizations that come twice", only(simrunner.CommitTwice, 1), noDuplicates},
		{"drain, and a new job", only(simrunner.Drain, 1), nil},
		{"nothing goes wrong", only("", 0), noDuplicates},
	}
	// One bubble for all: the process's pool of clients belongs to one.
	synctest.Test(t, func(t *testing.T) {
		for _, c := range cases {
			for _, mode := range []simrunner.Mode{simrunner.Flink, simrunner.Dataflow} {
				for seed := range uint64(3) {
					r := run(t, mode, seed+1, c.change)
					if err := r.Err(); err != nil {
						t.Errorf("%s: %v", c.name, err)
					}
					if c.check != nil {
						t.Log(c.name)
						c.check(t, r)
					}
				}
			}
		}
	})
}

func run(t *testing.T, mode simrunner.Mode, seed uint64, change func(*simrunner.Config)) *simrunner.Result {
	t.Helper()
	b, err := pubsubsim.New()
	if err != nil {
		t.Fatal(err)
	}
	cfg := b.Config(mode, seed, 500)
	change(&cfg)
	r, err := simrunner.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("%s, seed %d: %v", mode, seed, err)
	}
	return r
}

func only(f simrunner.Fault, rate float64) func(*simrunner.Config) {
	return func(c *simrunner.Config) {
		c.Faults, c.BrokerFaults = simrunner.Rates{}, 0
		if f != "" {
			c.Faults[f] = rate
		}
	}
}

func noDuplicates(t *testing.T, r *simrunner.Result) {
	t.Helper()
	if r.Duplicates > 0 {
		t.Errorf("%s, seed %d: %d duplicates though every bundle was committed", r.Mode, r.Seed, r.Duplicates)
	}
}

// idleWatermark: windows fire at most 15 s after their end.
func idleWatermark(t *testing.T, r *simrunner.Result) {
	t.Helper()
	if r.WatermarkLag > 15*time.Second {
		t.Errorf("%s, seed %d: the watermark of an idle source is %v behind", r.Mode, r.Seed, r.WatermarkLag)
	}
}
