package simrunner_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/testing/simrunner"
)

var (
	seeds    = flag.Uint64("seeds", 3, "number of seeds of each test")
	first    = flag.Uint64("seed", 1, "first seed")
	messages = flag.Int("messages", 500, "number of messages of a run of TestPubsub")
	only     = flag.String("mode", "", "the mode of TestPubsub; both if empty")
	atLeast  = flag.Int("at-least", 0, "how often TestPubsub wants each fault to strike")
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	// Faults make the sources complain all the time.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

const memCommitTimeout = time.Minute

// memConfig runs a source over a memBroker.
func memConfig(b *memBroker, mode simrunner.Mode, seed uint64, fn func() any) simrunner.Config {
	return simrunner.Config{
		Mode: mode, Seed: seed, Broker: b,
		Source: func(s beam.Scope) beam.PCollection {
			if err := commit.Enable(); err != nil {
				panic(err)
			}
			return beam.ParDo(s, fn(), beam.ParDo(s, &beforeFn{Broker: b.name}, beam.Impulse(s)))
		},
		ID:            func(_ int, v any) string { return v.(string) },
		Messages:      500,
		CommitTimeout: memCommitTimeout,
		Faults:        simrunner.AllFaults(mode),
		BrokerFaults:  1,
	}
}

// runMem makes one run in a bubble of its own, so that each begins alike.
func runMem(t *testing.T, mode simrunner.Mode, seed uint64, fn func() any) (r *simrunner.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newMemBroker(fmt.Sprintf("%s-%s-%d", t.Name(), mode, seed))
		defer b.close()
		var err error
		if r, err = simrunner.Run(t.Context(), memConfig(b, mode, seed, fn)); err != nil {
			t.Fatal(err)
		}
		if err := queue.WaitClosed(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

var modes = []simrunner.Mode{simrunner.Flink, simrunner.Dataflow}

// TestBrokenSourcesAreCaught is the simulation's own test.
func TestBrokenSourcesAreCaught(t *testing.T) {
	sources := []struct {
		name string
		fn   func(mode simrunner.Mode) any
		want string // the problem that is its fault, and not a side effect
		only simrunner.Mode
	}{
		{"ack at emit", func(m simrunner.Mode) any { return &ackAtEmitFn{newTiny(2, string(m))} }, "acknowledged before", ""},
		{"ack on resume", func(m simrunner.Mode) any { return &ackOnResumeFn{newTiny(2, string(m))} }, "acknowledged before", ""},
		{"never nack", func(m simrunner.Mode) any { return &neverNackFn{newTiny(2, string(m))} }, "missing", ""},
		{"ack by another instance", func(m simrunner.Mode) any { return &ackElsewhereFn{newTiny(2, string(m))} }, "settled by another instance", ""},
		{"ack in a finalization callback", func(m simrunner.Mode) any { return &callbackFn{newTiny(2, string(m))} }, "acknowledged before", simrunner.Flink},
	}
	for _, c := range sources {
		for _, mode := range modes {
			if c.only != "" && c.only != mode {
				continue
			}
			t.Run(c.name+" on "+string(mode), func(t *testing.T) {
				for seed := uint64(1); seed <= 20; seed++ {
					r := runMem(t, mode, seed, func() any { return c.fn(mode) })
					for _, p := range r.Problems {
						if strings.HasPrefix(p, c.want) {
							t.Logf("caught by seed %d: %s", seed, p)
							return
						}
					}
				}
				t.Errorf("20 seeds do not show that it has this wrong: %q", c.want)
			})
		}
	}
}

// TestRightSource shows that the faults alone are no problem.
func TestRightSource(t *testing.T) {
	for _, mode := range modes {
		for seed := *first; seed < *first+*seeds; seed++ {
			r := runMem(t, mode, seed, func() any {
				return &rightFn{Worker: anyWorker, Slots: 2, Runner: string(mode), Nonce: queue.NewNonce()}
			})
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			t.Logf("%s, seed %d: %d bundles, %v, %d duplicates, %d late again, faults %v", mode, seed, r.Bundles, r.Simulated, r.Duplicates, r.LateAgain, r.Faults)
		}
	}
}
