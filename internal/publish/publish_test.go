package publish

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errBusy    = errors.New("broker is busy")
	errLost    = errors.New("answer lost")
	errRefused = errors.New("refused")
	errBad     = errors.New("a message is bad")
)

func classify(err error) Verdict {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errLost):
		return Verdict{Retry: true, Unknown: true}
	case errors.Is(err, errBusy):
		return Verdict{Retry: true}
	case errors.Is(err, errBad):
		return Verdict{Blame: true}
	}
	return Verdict{}
}

// A fake is a broker: it stores what it takes, in order, unless answer says
// otherwise.
type fake struct {
	mu       sync.Mutex
	stored   []string
	calls    int
	flying   int
	peak     int
	clients  map[int]int
	pause    time.Duration
	answer   func(call int, msgs []string) error
	perReply func(msg string) error
}

func (f *fake) send(ctx context.Context, client int, b Batch[string]) ([]Reply[int], error) {
	f.mu.Lock()
	f.calls++
	call := f.calls
	f.flying++
	f.peak = max(f.peak, f.flying)
	if f.clients == nil {
		f.clients = map[int]int{}
	}
	f.clients[client]++
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.flying--; f.mu.Unlock() }()
	if !sleep(ctx, f.pause) {
		return nil, ctx.Err()
	}
	if f.answer != nil {
		if err := f.answer(call, b.Messages); err != nil {
			return nil, err
		}
	}
	replies := make([]Reply[int], len(b.Messages))
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range b.Messages {
		if f.perReply != nil {
			if err := f.perReply(m); err != nil {
				replies[i].Err = err
				continue
			}
		}
		f.stored = append(f.stored, m)
		replies[i].Value = len(f.stored)
	}
	return replies, nil
}

func (f *fake) publisher(t *testing.T) *Publisher[string, int] {
	return &Publisher[string, int]{
		Target: t.Name(), Clients: 4, Window: Room{Batches: 8},
		Policy: Policy{Attempt: time.Second, Total: time.Minute, MaxAttempts: 5, FirstWait: 100 * time.Millisecond, LastWait: time.Second},
		Send:   f.send, Classify: classify,
	}
}

func batchOf(order string, from, n int) Batch[string] {
	b := Batch[string]{Order: order, Bytes: n}
	for i := range n {
		b.Messages = append(b.Messages, fmt.Sprintf("%s%03d", order, from+i))
	}
	return b
}

// publish submits the batches in one session and returns all outcomes.
func publish(t *testing.T, p *Publisher[string, int], bs ...Batch[string]) []Outcome[string, int] {
	t.Helper()
	s := p.NewSession(t.Context())
	defer s.Close()
	var out []Outcome[string, int]
	for _, b := range bs {
		if err := s.Submit(b); err != nil {
			t.Fatalf("Submit: %v", err)
		}
		out = append(out, s.Drain()...)
	}
	rest, err := s.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return append(out, rest...)
}

// checkOnce fails unless each of the batches' messages has one outcome.
func checkOnce(t *testing.T, out []Outcome[string, int], bs ...Batch[string]) {
	t.Helper()
	seen := map[string]int{}
	for _, o := range out {
		seen[o.Message]++
	}
	want := 0
	for _, b := range bs {
		want += len(b.Messages)
		for _, m := range b.Messages {
			if seen[m] != 1 {
				t.Errorf("%s has %d outcomes", m, seen[m])
			}
		}
	}
	if len(out) != want {
		t.Errorf("%d outcomes for %d messages", len(out), want)
	}
}

// checkGone fails when the process still keeps something of p's target.
func checkGone(t *testing.T, p *Publisher[string, int]) {
	t.Helper()
	synctest.Wait()
	targets.Lock()
	defer targets.Unlock()
	if targets.byName[p.Target] != nil {
		t.Error("the target was left behind")
	}
}

func failed(out []Outcome[string, int]) (bad []Outcome[string, int]) {
	for _, o := range out {
		if o.Err != nil {
			bad = append(bad, o)
		}
	}
	return bad
}

func TestBatchesGoSideBySideWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: time.Second / 2}
		p := f.publisher(t)
		var bs []Batch[string]
		for i := range 24 {
			bs = append(bs, batchOf("", i*10, 10))
		}
		start := time.Now()
		out := publish(t, p, bs...)
		checkOnce(t, out, bs...)
		if f.peak != 8 {
			t.Errorf("%d batches in flight, want the window's 8", f.peak)
		}
		if d := time.Since(start); d != 3*time.Second/2 {
			t.Errorf("took %v, want three rounds", d)
		}
		for c := range 4 {
			if f.clients[c] != 6 {
				t.Errorf("client %d got %d batches, want 6", c, f.clients[c])
			}
		}
		checkGone(t, p)
	})
}

func TestWindowCountsMessagesAndBytes(t *testing.T) {
	for name, w := range map[string]Room{"messages": {Messages: 20}, "bytes": {Bytes: 25}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{pause: time.Second / 2}
				p := f.publisher(t)
				p.Window = w
				big := batchOf("", 100, 50) // larger than the window: alone
				bs := []Batch[string]{batchOf("", 0, 10), batchOf("", 10, 10), batchOf("", 20, 10), big}
				start := time.Now()
				checkOnce(t, publish(t, p, bs...), bs...)
				if f.peak != 2 {
					t.Errorf("%d batches in flight, want 2", f.peak)
				}
				if d := time.Since(start); d != 3*time.Second/2 {
					t.Errorf("took %v, want three rounds", d)
				}
			})
		})
	}
}

func TestSubmitLeavesAFullWindowWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: time.Second / 2}
		p := f.publisher(t)
		p.Window = Room{Batches: 1}
		first := p.NewSession(t.Context())
		if err := first.Submit(batchOf("", 0, 1)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		second := p.NewSession(ctx)
		if err := second.Submit(batchOf("", 1, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Submit to a full window = %v, want the context's error", err)
		}
		out, err := first.Wait(t.Context())
		if err != nil || len(out) != 1 {
			t.Errorf("first session: %d outcomes, %v", len(out), err)
		}
		if len(f.stored) != 1 {
			t.Errorf("stored %v", f.stored)
		}
	})
}

func TestRetryableErrorIsRetriedUntilItPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(call int, _ []string) error {
			if call < 4 {
				return errBusy
			}
			return nil
		}}
		b := batchOf("", 0, 50)
		out := publish(t, f.publisher(t), b)
		checkOnce(t, out, b)
		for _, o := range out {
			if o.Err != nil || o.Attempts != 4 || o.Unknown || o.Latency < 400*time.Millisecond {
				t.Fatalf("outcome %+v", o)
			}
		}
	})
}

func TestAttemptsAndTotalTimeEndInFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(int, []string) error { return errBusy }}
		p := f.publisher(t)
		b := batchOf("", 0, 3)
		for _, o := range publish(t, p, b) {
			if !errors.Is(o.Err, errBusy) || o.Attempts != 5 || o.Unknown || o.Permanent || !strings.Contains(o.Err.Error(), "5 attempts") {
				t.Fatalf("outcome %+v", o)
			}
		}
		p.Policy.MaxAttempts = 1000
		p.Policy.Total = 10 * time.Second
		start := time.Now()
		for _, o := range publish(t, p, b) {
			if !errors.Is(o.Err, errBusy) || !strings.Contains(o.Err.Error(), "in 10s") {
				t.Fatalf("outcome %+v", o)
			}
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("gave up after %v, want 10 s", d)
		}
	})
}

func TestF03AnswersWithheldForGoodAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: time.Hour}
		p := f.publisher(t)
		p.Policy.Attempt, p.Policy.Total = 0, 3*time.Second
		bs := []Batch[string]{batchOf("", 0, 50), batchOf("", 50, 50), batchOf("", 100, 20)}
		start := time.Now()
		out := publish(t, p, bs...)
		checkOnce(t, out, bs...)
		for _, o := range out {
			if !o.Unknown || o.Permanent || !errors.Is(o.Err, context.DeadlineExceeded) || !strings.Contains(o.Err.Error(), "3s") {
				t.Fatalf("outcome %+v", o)
			}
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestUnknownSurvivesALaterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(call int, _ []string) error {
			if call == 1 {
				return errLost
			}
			return errRefused
		}}
		out := publish(t, f.publisher(t), batchOf("", 0, 1))
		if o := out[0]; !o.Unknown || o.Permanent || !errors.Is(o.Err, errRefused) || o.Attempts != 2 {
			t.Errorf("outcome %+v, want unknown: the first attempt may have arrived", o)
		}
	})
}

func TestMessagesOfABatchFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := true
		f := &fake{perReply: func(m string) error {
			switch {
			case m == "007":
				return errRefused
			case m == "009" && busy:
				busy = false
				return errBusy
			}
			return nil
		}}
		b := batchOf("", 0, 20)
		out := publish(t, f.publisher(t), b)
		checkOnce(t, out, b)
		bad := failed(out)
		if len(bad) != 1 || bad[0].Message != "007" || !bad[0].Permanent || bad[0].Attempts != 1 {
			t.Errorf("failed: %+v", bad)
		}
		if f.calls != 2 || len(f.stored) != 19 {
			t.Errorf("%d calls, %d stored, want 2 and 19", f.calls, len(f.stored))
		}
	})
}

func TestOneBadMessageIsFoundAndItsNeighboursPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ int, msgs []string) error {
			if slices.Contains(msgs, "k037") {
				return errBad
			}
			return nil
		}}
		b := batchOf("k", 0, 50)
		out := publish(t, f.publisher(t), b)
		checkOnce(t, out, b)
		if bad := failed(out); len(bad) != 1 || bad[0].Message != "k037" || !bad[0].Permanent {
			t.Errorf("failed: %+v", bad)
		}
		if len(f.stored) != 49 || !slices.IsSorted(f.stored) {
			t.Errorf("%d stored, sorted %v", len(f.stored), slices.IsSorted(f.stored))
		}
		if f.calls > 15 {
			t.Errorf("%d calls to find one of 50", f.calls)
		}
	})
}

func TestKeyKeepsItsOrderOverBatchesRetriesAndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: 10 * time.Millisecond, answer: func(call int, _ []string) error {
			if call%3 == 0 {
				return errBusy
			}
			return nil
		}}
		p := f.publisher(t)
		var bs []Batch[string]
		for i := range 10 {
			bs = append(bs, batchOf("a", i*5, 5), batchOf("b", i*5, 5))
		}
		first := p.NewSession(t.Context())
		for _, b := range bs[:10] {
			if err := first.Submit(b); err != nil {
				t.Fatal(err)
			}
		}
		checkOnce(t, publish(t, p, bs[10:]...), bs[10:]...)
		if out, err := first.Wait(t.Context()); err != nil || len(out) != 50 {
			t.Fatalf("first session: %d outcomes, %v", len(out), err)
		}
		for _, key := range []string{"a", "b"} {
			of := slices.DeleteFunc(slices.Clone(f.stored), func(m string) bool { return m[:1] != key })
			if len(of) != 50 || !slices.IsSorted(of) {
				t.Errorf("key %s: %v", key, of)
			}
		}
		if len(f.clients) > 2 {
			t.Errorf("two keys used %d clients", len(f.clients))
		}
	})
}

func TestF20OrderingKeyResumesOrHolds(t *testing.T) {
	for _, hold := range []bool{false, true} {
		t.Run(fmt.Sprintf("hold=%v", hold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{answer: func(_ int, msgs []string) error {
					if slices.Contains(msgs, "k1.009") {
						return errBad
					}
					return nil
				}}
				p := f.publisher(t)
				p.Hold, p.HoldScope = hold, crand.Text() // a held key is held for as long as the process lives
				k1, k2 := batchOf("k1.", 0, 25), batchOf("k2.", 0, 50)
				more := batchOf("k1.", 25, 25)
				out := publish(t, p, k1, k2, more)
				checkOnce(t, out, k1, k2, more)
				bad, want := failed(out), 1
				if hold {
					want = 41
				}
				if len(bad) != want || len(f.stored) != 100-want {
					t.Fatalf("%d failed, %d stored, want %d failed", len(bad), len(f.stored), want)
				}
				held := 0
				for _, o := range bad {
					var h *HeldError
					if !errors.Is(o.Err, errBad) {
						t.Errorf("outcome without its cause: %+v", o)
					}
					if errors.As(o.Err, &h) {
						held++
						if o.Attempts > 6 || o.Permanent {
							t.Errorf("held outcome %+v", o)
						}
					}
				}
				if held != want-1 {
					t.Errorf("%d held, want %d", held, want-1)
				}
				if !hold {
					return
				}
				later := failed(publish(t, p, batchOf("k1.", 50, 1)))
				if len(later) != 1 || later[0].Attempts != 0 {
					t.Errorf("a later bundle of the held key: %+v", later)
				}
				p.HoldScope = "another"
				if other := failed(publish(t, p, batchOf("k1.", 51, 1))); len(other) != 0 {
					t.Errorf("another scope is held too: %+v", other)
				}
			})
		})
	}
}

func TestEndedContextFailsTheBundleWithoutOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: time.Second / 2}
		p := f.publisher(t)
		ctx, cancel := context.WithCancel(t.Context())
		s := p.NewSession(ctx)
		for i := range 5 {
			if err := s.Submit(batchOf("k", i, 1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second + time.Millisecond)
		if n := len(s.Drain()); n != 2 {
			t.Errorf("%d outcomes after two answers", n)
		}
		cancel()
		if out, err := s.Wait(t.Context()); err == nil || out != nil {
			t.Errorf("Wait = %v, %v, want an error alone", out, err)
		}
		checkGone(t, p)
		// The order's queue is free again.
		checkOnce(t, publish(t, p, batchOf("k", 9, 1)), batchOf("k", 9, 1))
	})
}
