package queue

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// One bundle is never committed; all that comes later must not stay in memory
// with it.
func TestStuckMessageHoldsOnlyItself(t *testing.T) {
	resetProcess()
	defer resetProcess()
	r := New(Config{Key: "leak", MaxMessages: 1 << 20, MaxBytes: 1 << 40}, sinkBroker{})
	defer r.Close()
	est := NewEstimator(InitialState())
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var last *Call[string]
	before := heap()
	for epoch := range int64(200) {
		tr := NewTracker(Restriction{Epoch: epoch}, nil)
		limits := Limits{Length: time.Minute, Quiet: Immediate}
		if epoch == 0 {
			limits.Messages = 1 // those allocated with it go on
		}
		c := r.Begin(t.Context(), tr, func() bool { return tr.TryClaim(nil) }, est, limits)
		ds := make([]Delivery[string], 100)
		for i := range ds {
			id := fmt.Sprintf("%d-%d", epoch, i)
			ds[i] = Delivery[string]{Msg: strings.Repeat(id, 1000), ID: id, Handle: id}
		}
		r.Deliver(ds)
		if last != nil { // there is always something in the reader
			last.outcome(commit.Committed, 0)
			r.flush(time.Minute)
		}
		for c.Next() != nil {
		}
		c.End()
		if epoch > 0 {
			last = c
		}
	}
	last.outcome(commit.Committed, 0)
	r.flush(time.Minute)
	// 20,000 messages of some 5 kB went through.
	if grown := int64(heap()) - int64(before); grown > 10<<20 {
		t.Errorf("%d MiB more than before, with one message held", grown>>20)
	}
	if n := r.held.n; n != 1 {
		t.Errorf("%d held, want 1", n)
	}
}
