package commit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc/metadata"
)

// A worker drives the hooks as one harness does.
type worker struct {
	t  *testing.T
	id string
	*table
}

func (w *worker) ctx(instruction string) context.Context {
	ctx := metadata.AppendToOutgoingContext(w.t.Context(), "worker_id", w.id)
	return metrics.SetBundleID(ctx, instruction)
}

// An outcomes keeps what Done was told, by name of the stake.
type outcomes struct {
	mu   sync.Mutex
	all  map[string][]Outcome
	took map[string]time.Duration
	log  []string
}

func (o *outcomes) done(name string) func(Outcome, time.Duration) {
	return func(x Outcome, took time.Duration) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.all == nil {
			o.all, o.took = map[string][]Outcome{}, map[string]time.Duration{}
		}
		o.all[name] = append(o.all[name], x)
		o.took[name] = took
		o.log = append(o.log, name+" "+x.String())
	}
}

func (o *outcomes) want(t *testing.T, want map[string]Outcome) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, x := range want {
		if got := o.all[name]; !slices.Equal(got, []Outcome{x}) {
			t.Errorf("%s: outcomes %v, want one: %v", name, got, x)
		}
	}
	for name, got := range o.all {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: outcomes %v, want none yet", name, got)
		}
	}
}

func (w *worker) register(instruction string, b Bundle) {
	w.table.register(keyOf(w.ctx(instruction), instruction), b)
}

// ends is the end of a bundle; it tells whether the runner is asked to finalize.
func (w *worker) ends(instruction, failure string, bySDK bool) bool {
	w.t.Helper()
	req := &fnpb.InstructionRequest{
		InstructionId: instruction,
		Request:       &fnpb.InstructionRequest_ProcessBundle{ProcessBundle: &fnpb.ProcessBundleRequest{}},
	}
	ctx, err := w.request(w.ctx(instruction), req)
	if err != nil || req.GetProcessBundle() == nil {
		w.t.Fatalf("request hook: %v, request now %v", err, req)
	}
	resp := &fnpb.InstructionResponse{InstructionId: instruction, Error: failure}
	if failure == "" {
		resp.Response = &fnpb.InstructionResponse_ProcessBundle{
			ProcessBundle: &fnpb.ProcessBundleResponse{RequiresFinalization: bySDK},
		}
	} else { // what the SDK sends with an error
		resp.Response = &fnpb.InstructionResponse_Register{Register: &fnpb.RegisterResponse{}}
	}
	if err := w.response(ctx, req, resp); err != nil {
		w.t.Fatal(err)
	}
	return resp.GetProcessBundle().GetRequiresFinalization()
}

// finalize is the runner's FinalizeBundle. It tells whether the SDK's own
// handler saw it.
func (w *worker) finalize(instruction string) (bySDK bool) {
	w.t.Helper()
	req := &fnpb.InstructionRequest{
		InstructionId: "f-" + instruction,
		Request:       &fnpb.InstructionRequest_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleRequest{InstructionId: instruction}},
	}
	ctx, err := w.request(w.ctx(req.InstructionId), req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp := &fnpb.InstructionResponse{InstructionId: req.InstructionId}
	if bySDK = req.GetFinalizeBundle() != nil; bySDK {
		resp.Response = &fnpb.InstructionResponse_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleResponse{}}
	} else {
		resp.Response = &fnpb.InstructionResponse_MonitoringInfos{MonitoringInfos: &fnpb.MonitoringInfosMetadataResponse{}}
	}
	if err := w.response(ctx, req, resp); err != nil {
		w.t.Fatal(err)
	}
	if resp.GetError() != "" || resp.GetFinalizeBundle() == nil || resp.GetInstructionId() != req.InstructionId {
		w.t.Errorf("the runner was answered %v", resp)
	}
	return bySDK
}

func (t *table) wantEmpty(tt *testing.T) {
	tt.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.open) + len(t.waiting) + len(t.slots) + len(t.sdk) + len(t.calls); n != 0 || t.running {
		tt.Errorf("left: %d open, %d waiting, %d slots, %d of the SDK, %d calls, running %v",
			len(t.open), len(t.waiting), len(t.slots), len(t.sdk), len(t.calls), t.running)
	}
}

// withTable runs f with a table and a clock of its own; nothing may be left.
func withTable(t *testing.T, f func(t *testing.T, w *worker, o *outcomes)) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{t: t, id: "w1", table: newTable()}
		f(t, w, &outcomes{})
		synctest.Wait()
		w.wantEmpty(t)
	})
}

func TestAtFinalize(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		w.register("inst1", Bundle{Slot: "s", Done: o.done("a")})
		w.register("inst1", Bundle{Slot: "s", Done: o.done("b")}) // a second call in the bundle
		if !w.ends("inst1", "", false) {
			t.Error("finalization not asked for")
		}
		time.Sleep(3 * time.Second)
		o.want(t, nil)
		if w.finalize("inst1") {
			t.Error("the SDK was sent a finalization that it did not ask for")
		}
		o.want(t, map[string]Outcome{"a": Committed, "b": Committed})
		if o.took["a"] != 3*time.Second {
			t.Errorf("took %v", o.took["a"])
		}
		w.finalize("inst1")
		time.Sleep(time.Hour)
		o.want(t, map[string]Outcome{"a": Committed, "b": Committed})
	})
}

func TestFailedBundleIsToldAtOnce(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		w.register("inst1", Bundle{Slot: "s", Done: o.done("a")})
		if w.ends("inst1", "boom", false) {
			t.Error("finalization asked for")
		}
		o.want(t, map[string]Outcome{"a": Failed})
		w.finalize("inst1")
		o.want(t, map[string]Outcome{"a": Failed})
	})
}

func TestBundlesOfOthersAreLeftAlone(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		if w.ends("inst1", "", false) {
			t.Error("finalization of a stranger's bundle asked for")
		}
		w.ends("inst2", "boom", false)
		if w.finalize("never heard of") {
			t.Error("the SDK would answer this with an error")
		}
		if !w.ends("inst3", "", true) {
			t.Error("a user's own finalization was taken away")
		}
		if !w.finalize("inst3") {
			t.Error("a user's own callbacks did not see the finalization")
		}
		o.want(t, nil)
	})
}

func TestUsersCallbacksAndOursInOneBundle(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		w.register("inst1", Bundle{Slot: "s", Done: o.done("a")})
		if !w.ends("inst1", "", true) {
			t.Error("finalization not asked for")
		}
		if !w.finalize("inst1") {
			t.Error("the user's callbacks did not see the finalization")
		}
		o.want(t, map[string]Outcome{"a": Committed})
		if w.finalize("inst1") {
			t.Error("the SDK saw a second finalization")
		}
	})
}

func TestSDKsBundlesAreForgottenInTheEnd(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, _ *outcomes) {
		w.ends("inst1", "", true)
		w.ends("inst1", "", true)
		time.Sleep(sdkMemory + time.Second)
	})
}

func TestExpiry(t *testing.T) {
	for _, p := range []Policy{AtFinalize, AtNextFinalize} {
		withTable(t, func(t *testing.T, w *worker, o *outcomes) {
			w.register("inst1", Bundle{Slot: "s", Policy: p, Done: o.done("a"), Timeout: 5 * time.Second})
			w.register("inst2", Bundle{Slot: "s", Policy: p, Done: o.done("default")})
			w.ends("inst1", "", false)
			w.ends("inst2", "", false)
			time.Sleep(5*time.Second - 1)
			o.want(t, nil)
			time.Sleep(2 * time.Nanosecond)
			o.want(t, map[string]Outcome{"a": Expired})
			w.finalize("inst1") // too late
			time.Sleep(DefaultTimeout - 6*time.Second)
			o.want(t, map[string]Outcome{"a": Expired})
			time.Sleep(2 * time.Second)
			o.want(t, map[string]Outcome{"a": Expired, "default": Expired})
			if o.took["default"] != DefaultTimeout {
				t.Errorf("took %v", o.took["default"])
			}
		})
	}
}

func TestExpiryCountsFromTheEndOfTheBundleAlsoWhenFinalizedOnce(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		w.register("inst1", Bundle{Slot: "s", Policy: AtNextFinalize, Done: o.done("a"), Timeout: 10 * time.Second})
		w.ends("inst1", "", false)
		time.Sleep(9 * time.Second)
		w.finalize("inst1")
		o.want(t, nil)
		time.Sleep(time.Second + 1)
		o.want(t, map[string]Outcome{"a": Expired})
	})
}

// TestFlinkFinalizesBundlesBehindTheBarrier is the trap that AtNextFinalize is
// for: two bundles, the second behind the barrier of checkpoint 1, are both
// finalized when it completes. Only checkpoint 2 holds the second.
func TestFlinkFinalizesBundlesBehindTheBarrier(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		end := func(name string) {
			w.register(name, Bundle{Slot: "s", Policy: AtNextFinalize, Done: o.done(name)})
			w.ends(name, "", false)
			time.Sleep(time.Second)
		}
		end("in1")
		end("behind1")
		w.finalize("in1") // checkpoint 1 completes
		time.Sleep(time.Millisecond)
		w.finalize("behind1")
		o.want(t, nil)
		time.Sleep(time.Second)
		end("in2")
		end("behind2")
		o.want(t, nil)
		w.finalize("in2") // checkpoint 2 completes
		o.want(t, map[string]Outcome{"in1": Committed, "behind1": Committed})
		w.finalize("behind2")
		time.Sleep(time.Second)

		// An empty bundle vouches too; one of another slot does not.
		w.register("other", Bundle{Slot: "t", Policy: AtNextFinalize})
		w.ends("other", "", false)
		w.finalize("other")
		o.want(t, map[string]Outcome{"in1": Committed, "behind1": Committed})
		w.register("empty", Bundle{Slot: "s", Policy: AtNextFinalize})
		w.ends("empty", "", false)
		w.finalize("empty")
		o.want(t, map[string]Outcome{"in1": Committed, "behind1": Committed, "in2": Committed, "behind2": Committed})
	})
}

func TestTwoJobsOfOneProcessAreNotMixed(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		x := &worker{t: t, id: "w2", table: w.table}
		want := map[string]Outcome{}
		for i := range 30 { // the same ids, in turn
			id := fmt.Sprintf("inst%03d", i)
			a, b := "a"+id, "b"+id
			w.register(id, Bundle{Slot: "s", Done: o.done(a)})
			x.register(id, Bundle{Slot: "s", Done: o.done(b)})
			w.ends(id, "", i%5 == 0)
			failure := ""
			if i%3 == 0 {
				failure = "boom"
				want[b] = Failed
			}
			x.ends(id, failure, false)
			o.want(t, want)
			if w.finalize(id) != (i%5 == 0) {
				t.Errorf("%s: wrong way through the SDK", a)
			}
			want[a] = Committed
			o.want(t, want)
			if x.finalize(id) {
				t.Errorf("%s: sent to the SDK, which did not ask", b)
			}
			if i%3 != 0 {
				want[b] = Committed
			}
			o.want(t, want)
		}
	})
}

func TestFlushRunsAfterDoneAndBeforeTheAnswer(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		done, flushed := false, false
		w.register("inst1", Bundle{
			Slot: "s",
			Done: func(Outcome, time.Duration) { time.Sleep(time.Second); done = true },
			Flush: func() {
				if !done {
					t.Error("flushed before Done")
				}
				time.Sleep(time.Second)
				flushed = true
			},
		})
		w.ends("inst1", "", false)
		began := time.Now()
		w.finalize("inst1")
		if !flushed || time.Since(began) != 2*time.Second {
			t.Errorf("answered after %v, flushed: %v", time.Since(began), flushed)
		}
	})
}

// A runner whose worker counts anew reuses the key of a bundle that was never
// finalized.
func TestKeyThatComesAgain(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		w.register("inst1", Bundle{Slot: "s", Done: o.done("old")})
		w.ends("inst1", "", false)
		time.Sleep(time.Second)
		w.register("inst1", Bundle{Slot: "s", Done: o.done("new")})
		w.ends("inst1", "", false)
		o.want(t, map[string]Outcome{"old": Expired})
		w.finalize("inst1")
		o.want(t, map[string]Outcome{"old": Expired, "new": Committed})
	})
}

func TestOutcomesComeInOrder(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		var want []string
		for i := range 100 {
			id := fmt.Sprint("inst", i)
			w.register(id, Bundle{Slot: "s", Done: o.done(id)})
			w.ends(id, "", false)
			w.finalize(id)
			want = append(want, id+" committed")
		}
		synctest.Wait()
		if !slices.Equal(o.log, want) {
			t.Errorf("outcomes in the order %v", o.log)
		}
	})
}

func TestAlarmWithoutFinalizations(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		var logged bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		defer slog.SetDefault(old)
		alarms := func() int { return strings.Count(logged.String(), "checkpointing_interval") }
		last := ""
		run := func(n int, finalized bool) {
			for range n {
				last = fmt.Sprint("inst", time.Now().UnixNano())
				w.register(last, Bundle{Slot: "s", Policy: AtNextFinalize, Done: func(Outcome, time.Duration) {}})
				w.ends(last, "", false)
				if finalized {
					w.finalize(last)
				}
				time.Sleep(time.Second)
			}
		}
		run(1000, true)
		if alarms() != 0 {
			t.Errorf("alarm though bundles are finalized:\n%s", &logged)
		}
		run(290, false)
		if alarms() != 0 {
			t.Errorf("alarm too soon:\n%s", &logged)
		}
		run(1000, false)
		if alarms() != 1 {
			t.Errorf("%d alarms, want one", alarms())
		}
		w.finalize(last)
		time.Sleep(time.Hour)
	})
}

func TestFewBundlesAreNoAlarm(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		var logged bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		defer slog.SetDefault(old)
		for i := range 20 { // gathers for a minute
			w.register(fmt.Sprint("inst", i), Bundle{Slot: "s", Timeout: time.Hour})
			w.ends(fmt.Sprint("inst", i), "", false)
			time.Sleep(time.Minute)
		}
		if logged.Len() > 0 {
			t.Errorf("logged %s", &logged)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestEachOutcomeExactlyOnce drives many bundles of several workers at random
// and at once. It is for the race detector, and for what it leaves.
func TestEachOutcomeExactlyOnce(t *testing.T) {
	withTable(t, func(t *testing.T, w *worker, o *outcomes) {
		var wg sync.WaitGroup
		total := 0
		for n := range 8 {
			x := &worker{t: t, id: fmt.Sprint("w", n%4), table: w.table}
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			total += 200
			wg.Go(func() {
				var ended []string
				for i := range 200 {
					id := fmt.Sprintf("inst%d-%d", n/4, i)
					name := x.id + id
					x.register(id, Bundle{
						Slot: fmt.Sprint(rnd.IntN(3)), Policy: Policy(rnd.IntN(2)), Timeout: time.Minute,
						Done: o.done(name),
					})
					failure := ""
					if rnd.IntN(5) == 0 {
						failure = "boom"
					}
					x.ends(id, failure, rnd.IntN(4) == 0)
					ended = append(ended, id)
					for rnd.IntN(2) == 0 { // any of them, perhaps again
						x.finalize(ended[rnd.IntN(len(ended))])
					}
					time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * sdkMemory)
		if len(o.all) != total {
			t.Errorf("%d of %d stakes heard", len(o.all), total)
		}
		seen := map[Outcome]int{}
		for name, got := range o.all {
			if len(got) != 1 {
				t.Errorf("%s: outcomes %v", name, got)
			}
			seen[got[0]]++
		}
		if len(seen) != 3 {
			t.Errorf("outcomes %v: the test does not reach them all", seen)
		}
	})
}

func TestPolicyFor(t *testing.T) {
	w := &worker{t: t, id: "w"}
	for _, tc := range []struct {
		runner, instruction string
		want                Policy
	}{
		{"prism", "x", AtFinalize},
		{"dataflow", "x", AtFinalize},
		{"flink", "inst001", AtNextFinalize},
		{"universal", "inst001", AtNextFinalize},
		{"", "inst001", AtFinalize},
		{"", "1", AtNextFinalize},
	} {
		if got := PolicyFor(w.ctx(tc.instruction), tc.runner); got != tc.want {
			t.Errorf("%q, %q: %v, want %v", tc.runner, tc.instruction, got, tc.want)
		}
	}
	if got := WorkerID(w.ctx("x")); got != "w" {
		t.Errorf("worker %q", got)
	}
	if WorkerID(t.Context()) != "" {
		t.Error("a worker without id")
	}
}
