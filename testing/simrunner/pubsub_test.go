package simrunner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/pubsubsim"
	"github.com/beam-brokers/beam-brokers/testing/simrunner"
)

// runPubsub makes one run and leaves nothing behind.
func runPubsub(t *testing.T, mode simrunner.Mode, seed uint64, messages int) *simrunner.Result {
	t.Helper()
	// Each run begins at the same place within the hour, so that all are alike.
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
	b, err := pubsubsim.New()
	if err != nil {
		t.Fatal(err)
	}
	r, err := simrunner.Run(t.Context(), b.Config(mode, seed, messages))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("%s, seed %d: %v", mode, seed, err)
	}
	return r
}

// TestPubsub drives pubsubio.Read, with the real client, over pubsubfake. All
// runs share one bubble: so does the process's pool of clients.
func TestPubsub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range modes {
			if *only == "" || *only == string(mode) {
				runPubsubSeeds(t, mode)
			}
		}
	})
}

func runPubsubSeeds(t *testing.T, mode simrunner.Mode) {
	began, sum := realTime(), tally{faults: map[string]int{}}
	for seed := *first; seed < *first+*seeds; seed++ {
		r := runPubsub(t, mode, seed, *messages)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		sum.add(r)
	}
	sum.faultsOf(mode)
	fmt.Printf("simrunner: pubsubio on %s, seeds %d-%d of %d messages, %v of CPU: %s\n",
		mode, *first, *first+*seeds-1, *messages, (realTime() - began).Round(time.Second), sum.String())
	if name, n := sum.rarest(); *atLeast > n {
		t.Errorf("%s: %q struck %d times, wanted %d", mode, name, n, *atLeast)
	}
}

// realTime is the processor time used so far: inside a bubble the clock is not
// the real one.
func realTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A tally adds up runs.
type tally struct {
	published, durable, duplicates, lateAgain, bundles, bad int
	longest                                                 time.Duration
	faults                                                  map[string]int
}

func (s *tally) add(r *simrunner.Result) {
	s.published += r.Published
	s.durable += r.Durable
	s.duplicates += r.Duplicates
	s.lateAgain += r.LateAgain
	s.bundles += r.Bundles
	s.longest = max(s.longest, r.LongestHeld)
	if len(r.Problems) > 0 {
		s.bad++
	}
	for f, n := range r.Faults {
		s.faults[f] += n
	}
}

// faultsOf makes those that never struck show.
func (s *tally) faultsOf(mode simrunner.Mode) {
	for _, f := range simrunner.Faults(mode) {
		s.faults[string(f)] += 0
	}
	for _, f := range (&pubsubsim.Broker{}).Faults() {
		s.faults[f.Name] += 0
	}
}

func (s *tally) rarest() (name string, n int) {
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		if name == "" || s.faults[f] < n {
			name, n = f, s.faults[f]
		}
	}
	return name, n
}

func (s *tally) String() string {
	var faults []string
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		faults = append(faults, fmt.Sprintf("%s=%d", f, s.faults[f]))
	}
	return fmt.Sprintf("published=%d missing=%d duplicates=%d late_redeliveries=%d bundles=%d held_at_most=%v bad_seeds=%d; faults: %s",
		s.published, s.published-s.durable, s.duplicates, s.lateAgain, s.bundles, s.longest.Round(time.Second), s.bad, strings.Join(faults, ", "))
}
