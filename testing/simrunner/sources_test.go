package simrunner_test

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

func init() {
	register.DoFn1x1[[]byte, []byte](&beforeFn{})
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&ackAtEmitFn{})
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&ackOnResumeFn{})
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&neverNackFn{})
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&ackElsewhereFn{})
	register.DoFn5x2[context.Context, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&callbackFn{})
	register.DoFn6x2[context.Context, *queue.Estimator, beam.BundleFinalization, *sdf.LockRTracker, []byte, func(beam.EventTime, string), sdf.ProcessContinuation, error](&rightFn{})
	register.Emitter2[beam.EventTime, string]()
	beam.RegisterType(reflect.TypeFor[tinyRestriction]())
}

// beforeFn stands before the source, as a connector's prepare step does.
type beforeFn struct{ Broker string }

func (f *beforeFn) ProcessElement([]byte) []byte { return []byte(f.Broker) }

// tiny is what the sources have in common: the broker's name, the worker they
// run on, and the restriction methods.
type tiny struct {
	Worker string
	Slots  int
	Runner string
}

func newTiny(slots int, runner string) tiny { return tiny{anyWorker, slots, runner} }

// A tinyRestriction is a slot and, for ackElsewhereFn, what was emitted of it.
type tinyRestriction struct {
	Slot    int64
	Done    bool
	Handles []string
}

func (tiny) CreateInitialRestriction([]byte) tinyRestriction { return tinyRestriction{} }

func (t tiny) SplitRestriction(_ []byte, r tinyRestriction) (out []tinyRestriction) {
	for i := range t.Slots {
		out = append(out, tinyRestriction{Slot: int64(i)})
	}
	return out
}

func (tiny) RestrictionSize([]byte, tinyRestriction) float64 { return 1 }

func (tiny) CreateTracker(r tinyRestriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&tinyTracker{r: r})
}

func (tiny) TruncateRestriction(rt *sdf.LockRTracker, _ []byte) tinyRestriction {
	r := rt.GetRestriction().(tinyRestriction)
	r.Done = true
	return r
}

type tinyTracker struct {
	r       tinyRestriction
	handles []string // go into the residual
}

func (t *tinyTracker) TryClaim(any) bool               { return !t.r.Done }
func (t *tinyTracker) GetError() error                 { return nil }
func (t *tinyTracker) GetProgress() (float64, float64) { return 0, 1 }
func (t *tinyTracker) IsDone() bool                    { return t.r.Done }
func (t *tinyTracker) GetRestriction() any             { return t.r }
func (t *tinyTracker) IsBounded() bool                 { return t.r.Done }

func (t *tinyTracker) TrySplit(fraction float64) (any, any, error) {
	if fraction > 0 || t.r.Done {
		return t.r, nil, nil
	}
	t.r.Done = true
	return t.r, tinyRestriction{Slot: t.r.Slot, Handles: t.handles}, nil
}

// A turn is one ProcessElement of a tiny source.
type turn struct {
	b       *memBroker
	worker  string
	rt      *sdf.LockRTracker
	slot    int64
	handles []string
}

func (t tiny) begin(rt *sdf.LockRTracker, elem []byte) turn {
	return turn{memBrokerOf(string(elem)), t.Worker, rt, rt.GetRestriction().(tinyRestriction).Slot, nil}
}

// receive emits what is there, and calls each after every element.
func (t *turn) receive(emit func(beam.EventTime, string), each func(delivery string)) sdf.ProcessContinuation {
	for _, m := range t.b.take(t.worker, 100) {
		if !t.rt.TryClaim(nil) {
			t.b.settle(t.worker, false, m.delivery)
			continue
		}
		t.handles = append(t.handles, m.delivery)
		emit(mtime.FromTime(m.at), m.id)
		if each != nil {
			each(m.delivery)
		}
	}
	if t.rt.IsDone() {
		return sdf.StopProcessing()
	}
	return sdf.ResumeProcessingIn(200 * time.Millisecond)
}

// ackAtEmitFn acknowledges what it has emitted at once.
type ackAtEmitFn struct{ tiny }

func (f *ackAtEmitFn) ProcessElement(_ context.Context, _ beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (sdf.ProcessContinuation, error) {
	t := f.begin(rt, elem)
	return t.receive(emit, func(d string) { t.b.settle(f.Worker, true, d) }), nil
}

// ackOnResumeFn believes that a call means that the last one's outputs are safe.
type ackOnResumeFn struct{ tiny }

// emittedOf remembers what ackOnResumeFn emitted, by worker and slot.
var emittedOf sync.Map

func (f *ackOnResumeFn) ProcessElement(_ context.Context, _ beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (sdf.ProcessContinuation, error) {
	t := f.begin(rt, elem)
	key := [3]any{t.b, f.Worker, t.slot}
	if last, ok := emittedOf.LoadAndDelete(key); ok {
		t.b.settle(f.Worker, true, last.([]string)...)
	}
	defer func() { emittedOf.Store(key, t.handles) }()
	return t.receive(emit, nil), nil
}

// neverNackFn acknowledges at the right time, and otherwise does nothing.
type neverNackFn struct{ tiny }

func (f *neverNackFn) ProcessElement(ctx context.Context, _ beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (sdf.ProcessContinuation, error) {
	t := f.begin(rt, elem)
	defer func() {
		commit.Register(ctx, commit.Bundle{
			Slot: queue.ReaderKey(f.Worker, t.b.name, t.slot), Policy: commit.PolicyFor(ctx, f.Runner), Timeout: memCommitTimeout,
			Done: func(o commit.Outcome, _ time.Duration) {
				if o == commit.Committed {
					t.b.settle(f.Worker, true, t.handles...)
				}
			},
		})
	}()
	return t.receive(emit, nil), nil
}

// ackElsewhereFn lets the residual carry what was emitted, to be acknowledged
// by whoever runs it, after a commit of that one's.
type ackElsewhereFn struct{ tiny }

func (f *ackElsewhereFn) ProcessElement(ctx context.Context, _ beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (sdf.ProcessContinuation, error) {
	t := f.begin(rt, elem)
	carried := rt.GetRestriction().(tinyRestriction).Handles
	defer func() {
		rt.Mu.Lock()
		rt.Rt.(*tinyTracker).handles = t.handles
		rt.Mu.Unlock()
		commit.Register(ctx, commit.Bundle{
			Slot: queue.ReaderKey(f.Worker, t.b.name, t.slot), Policy: commit.AtFinalize, Timeout: memCommitTimeout,
			Done: func(o commit.Outcome, _ time.Duration) {
				switch o {
				case commit.Committed:
					t.b.settle(f.Worker, true, carried...)
				case commit.Failed:
					t.b.settle(f.Worker, false, t.handles...)
				}
			},
		})
	}()
	return t.receive(emit, nil), nil
}

// callbackFn does what Beam's documents say: acknowledge in a finalization
// callback. It gives nothing back, so it is not right either, but on Flink it
// also loses messages: see commit.AtNextFinalize.
type callbackFn struct{ tiny }

func (f *callbackFn) ProcessElement(_ context.Context, bf beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (sdf.ProcessContinuation, error) {
	t := f.begin(rt, elem)
	defer func() {
		bf.RegisterCallback(memCommitTimeout, func() error {
			t.b.settle(f.Worker, true, t.handles...)
			return nil
		})
	}()
	return t.receive(emit, nil), nil
}

// rightFn is a source on internal/queue.
type rightFn struct {
	Worker string
	Slots  int
	Runner string
	Nonce  string
}

var rightReaders queue.Registry[*queue.Reader[string]]

func (f *rightFn) CreateInitialRestriction([]byte) queue.Restriction { return queue.Restriction{} }

func (f *rightFn) SplitRestriction([]byte, queue.Restriction) []queue.Restriction {
	return queue.Slots(f.Slots)
}

func (f *rightFn) RestrictionSize([]byte, queue.Restriction) float64 { return 1 }

func (f *rightFn) CreateTracker(r queue.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(queue.NewTracker(r, nil))
}

func (f *rightFn) TruncateRestriction(rt *sdf.LockRTracker, _ []byte) queue.Restriction {
	r := rt.GetRestriction().(queue.Restriction)
	r.Done = true
	return r
}

func (f *rightFn) InitialWatermarkEstimatorState(beam.EventTime, queue.Restriction, []byte) queue.WatermarkState {
	return queue.InitialState()
}

func (f *rightFn) CreateWatermarkEstimator(s queue.WatermarkState) *queue.Estimator {
	return queue.NewEstimator(s)
}

func (f *rightFn) WatermarkEstimatorState(e *queue.Estimator) queue.WatermarkState { return e.State() }

func (f *rightFn) ProcessElement(ctx context.Context, est *queue.Estimator, _ beam.BundleFinalization, rt *sdf.LockRTracker, elem []byte, emit func(beam.EventTime, string)) (cont sdf.ProcessContinuation, err error) {
	r := rt.GetRestriction().(queue.Restriction)
	if r.Done {
		return sdf.StopProcessing(), nil
	}
	key := queue.ReaderKey(commit.WorkerID(ctx), f.Nonce, r.Slot)
	policy := commit.PolicyFor(ctx, f.Runner)
	reader := rightReaders.Get(key, func() *queue.Reader[string] {
		in := queue.New(queue.Config{
			Key: key, Name: string(elem), Policy: policy, CommitTimeout: memCommitTimeout,
			MaxMessages: 2000, MaxBytes: 1 << 20,
		}, &memInlet{memBrokerOf(string(elem)), f.Worker})
		in.OnClose = func() { rightReaders.Remove(key, in) }
		return in
	})
	t := rt.Rt.(*queue.Tracker)
	call := reader.Begin(ctx, t, func() bool { return rt.TryClaim(nil) }, est, queue.DefaultLimits(f.Runner, policy))
	defer func() {
		res := call.End()
		switch {
		case res.Err != nil || res.Refused:
			cont, err = sdf.StopProcessing(), res.Err
		case res.Done:
			rt.Mu.Lock()
			defer rt.Mu.Unlock()
			t.Finish()
			cont = sdf.StopProcessing()
		default:
			cont = sdf.ResumeProcessingIn(res.Resume)
		}
	}()
	for d := call.Next(); d != nil; d = call.Next() {
		emit(mtime.FromTime(d.Time), d.Msg)
	}
	return nil, nil
}

// memInlet is the client side of rightFn.
type memInlet struct {
	b      *memBroker
	worker string
}

func (in *memInlet) Receive(ctx context.Context, r *queue.Reader[string]) error {
	r.Connected(true)
	for {
		if err := r.WaitRoom(ctx); err != nil {
			return err
		}
		if err := in.b.wait(ctx); err != nil {
			return err
		}
		room, _ := r.Room()
		ms := in.b.take(in.worker, min(room, 100))
		if len(ms) == 0 {
			// Somebody was quicker, or the worker is dead.
			t := time.NewTimer(100 * time.Millisecond)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
			continue
		}
		var ds []queue.Delivery[string]
		for _, m := range ms {
			ds = append(ds, queue.Delivery[string]{Msg: m.id, ID: m.id, Time: m.at, Bytes: 1, Handle: m.delivery})
		}
		r.Deliver(ds)
	}
}

func (in *memInlet) Settle(_ context.Context, s queue.Settlement, handles []any) ([]any, error) {
	for _, h := range handles {
		in.b.settle(in.worker, s == queue.Ack, h.(string))
	}
	return nil, nil
}

func (in *memInlet) Renew(context.Context, time.Duration, []any) ([]any, error) { return nil, nil }

func (in *memInlet) Close() error { return nil }
