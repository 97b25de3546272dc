package queue

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// A sinkBroker accepts everything.
type sinkBroker struct{}

func (sinkBroker) Receive(ctx context.Context, r *Reader[string]) error {
	r.Connected(true)
	<-ctx.Done()
	return ctx.Err()
}

func (sinkBroker) Settle(context.Context, Settlement, []any) ([]any, error) { return nil, nil }

func (sinkBroker) Renew(context.Context, time.Duration, []any) ([]any, error) { return nil, nil }

func (sinkBroker) Close() error { return nil }

// BenchmarkReader is the reader's cost of a message, from Deliver to its
// acknowledgement, in bundles of some size; ids as Pub/Sub has them.
func BenchmarkReader(b *testing.B) {
	for _, bundle := range []int{100, 1000, 10_000} {
		b.Run(strconv.Itoa(bundle), func(b *testing.B) { benchmarkReader(b, bundle) })
	}
}

func benchmarkReader(b *testing.B, bundle int) {
	resetProcess()
	defer resetProcess()
	r := New(Config{
		Key: "bench", MaxMessages: 1 << 30, MaxBytes: 1 << 40,
		Lease: func() time.Duration { return time.Minute },
	}, sinkBroker{})
	defer r.Close()
	ds := make([]Delivery[string], min(bundle, 1000))
	ids := make([]string, 1<<16)
	handles := make([]any, len(ids))
	for i := range ids {
		ids[i] = strconv.Itoa(7_000_000_000_000_000 + i)
		handles[i] = ids[i]
	}
	next := 0
	est := NewEstimator(InitialState())
	b.ReportAllocs()
	b.ResetTimer()
	for done, epoch := 0, int64(0); done < b.N; epoch++ {
		tr := NewTracker(Restriction{Epoch: epoch}, nil)
		c := r.Begin(b.Context(), tr, func() bool { return tr.TryClaim(nil) }, est, Limits{Length: time.Minute, Messages: bundle})
		now := time.Now()
		for range bundle / len(ds) {
			for i := range ds {
				k := next % len(ids)
				next++
				ds[i] = Delivery[string]{Msg: "payload", ID: ids[k], Handle: handles[k], Bytes: 1024, Time: now}
			}
			r.Deliver(ds)
		}
		n := 0
		for d := c.Next(); d != nil; d = c.Next() {
			n++
		}
		if n != bundle {
			b.Fatalf("emitted %d of %d", n, bundle)
		}
		c.End() // registers with a bundle that never ends; the outcome is given here
		c.outcome(commit.Committed, 0)
		r.flush(time.Minute)
		done += n
	}
	b.StopTimer()
	if s := r.Stats(); s.Acked.Load() < int64(b.N) {
		b.Errorf("acknowledged %d of %d", s.Acked.Load(), b.N)
	}
}
