package pubsubio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/prism"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

func init() {
	register.DoFn8x2[
		context.Context, *queue.Estimator, beam.BundleFinalization, *sdf.LockRTracker, []byte,
		func(beam.EventTime, Message), func(beam.EventTime, FailedMessage), func([]byte),
		sdf.ProcessContinuation, error,
	](&readFn{})
	register.Emitter2[beam.EventTime, Message]()
	register.Emitter2[beam.EventTime, FailedMessage]()
	register.Emitter1[[]byte]()
	beam.RegisterType(reflect.TypeFor[queue.Restriction]())
	beam.RegisterType(reflect.TypeFor[queue.WatermarkState]())
}

// A ReadResult is what a Read gives: every message is in one of the two.
type ReadResult struct {
	// Messages is a PCollection<Message>, timestamped with the publish time (or
	// the time of TimestampAttribute).
	Messages beam.PCollection
	// Failed is a PCollection<FailedMessage> of messages that could not be
	// decoded, with their raw bodies. It is empty in schemaMode raw, basic and
	// slim without a schema. They are acknowledged like the others: write Failed
	// somewhere.
	Failed beam.PCollection
}

// Read reads the subscription (an id or a full name). It panics, like
// beam.ParDo, on options that are wrong; TryRead returns the error.
func Read(s beam.Scope, conn Connection, subscription string, opts ...ReadOption) ReadResult {
	r, err := TryRead(s, conn, subscription, opts...)
	if err != nil {
		panic(fmt.Errorf("pubsubio.Read: %w", err))
	}
	return r
}

// TryRead is Read, returning every mistake in the options as one joined error.
// It connects to nothing.
func TryRead(s beam.Scope, conn Connection, subscription string, opts ...ReadOption) (ReadResult, error) {
	cfg, err := newReadConfig(conn, subscription, opts...)
	if err != nil {
		return ReadResult{}, err
	}
	if err := prism.CheckRunner(cfg.Runner); err != nil {
		return ReadResult{}, err
	}
	prism.WarnProcs()
	if err := commit.Enable(); err != nil {
		return ReadResult{}, fmt.Errorf("enabling commit hooks: %w", err)
	}
	s = s.Scope("pubsubio.Read")
	f := &readFn{Conn: conn, Config: cfg, Nonce: queue.NewNonce()}
	messages, failed, never := beam.ParDo3(s, f, prepared(s, conn, cfg))
	prism.Escape(s, never)
	if cfg.NumWriters != 1 {
		messages = forWriters(s, cfg.NumWriters, messages)
	}
	return ReadResult{Messages: messages, Failed: failed}, nil
}

// readFn is the source. Its restriction is a consumer slot of the subscription.
type readFn struct {
	Conn   Connection
	Config readConfig
	Nonce  string

	decode *decoder
	sub    *subscription // once known
	report *queue.Reporter
	own    *ownMetrics
}

// readers are the process's readers, alive across bundles.
var readers queue.Registry[*source]

// A source is a reader with its client side.
type source struct {
	*queue.Reader[Message]
	inlet *inlet
	empty atomic.Int32 // polls of availableNow in a row that found nothing
}

// Setup makes what a worker needs.
func (f *readFn) Setup(ctx context.Context) error {
	f.report = queue.NewReporter(metricsNamespace)
	f.own = newOwnMetrics()
	var err error
	f.decode, err = newDecoder(f.Conn, f.Config)
	return err
}

// ProcessElement emits what is there, waits a little for more, and comes back.
func (f *readFn) ProcessElement(
	ctx context.Context, est *queue.Estimator, _ beam.BundleFinalization, rt *sdf.LockRTracker, prepared []byte,
	emit func(beam.EventTime, Message), failed func(beam.EventTime, FailedMessage), _ func([]byte),
) (cont sdf.ProcessContinuation, err error) {
	r := rt.GetRestriction().(queue.Restriction)
	if r.Done {
		return sdf.StopProcessing(), nil
	}
	src, err := f.source(ctx, r.Slot, prepared)
	if err != nil {
		return sdf.StopProcessing(), err
	}
	t := rt.Rt.(*queue.Tracker)
	policy := commit.PolicyFor(ctx, f.Config.Runner)
	pace := src.Pace()
	src.inlet.commitInterval.Store(int64(pace.Commit))
	call := src.Begin(ctx, t, func() bool { return rt.TryClaim(nil) }, est, f.Config.limits(policy, pace))
	// On the way of a panic too: what was emitted has to be given back.
	defer func() {
		res := call.End()
		queue.Report(ctx, f.report, src.Reader)
		f.own.report(ctx, src, res, r.Epoch)
		cont, err = f.after(rt, t, res, err)
	}()
	return nil, f.emit(ctx, src, call, emit, failed)
}

// emit hands the call's messages to the pipeline. An error is no fault of a
// message: the bundle has to be done again.
func (f *readFn) emit(ctx context.Context, src *source, call *queue.Call[Message], emit func(beam.EventTime, Message), failed func(beam.EventTime, FailedMessage)) error {
	got, last := 0, false
	for d := call.Next(); d != nil; d = call.Next() {
		got++
		if !f.Config.LimitTime.IsZero() && !d.Msg.PublishTime.Before(f.Config.LimitTime) {
			call.PutAside()
			if !last {
				last = true
				call.Finish(emitRest)
			}
			continue
		}
		f.own.gathered(&d.Msg)
		et := eventTimeOf(d.Time)
		m, err := f.decode.decode(ctx, d.Msg)
		if errors.Is(err, errSchemaUnavailable) {
			return fmt.Errorf("decoding message %s: %w", d.Msg.MessageID, err)
		}
		if err != nil {
			src.Stats().DecodeFailed.Add(1)
			failed(et, FailedMessage{Message: d.Msg, Reason: err.Error(), Permanent: true, Attempts: d.Attempt})
			continue
		}
		emit(et, m)
	}
	f.finishIfIdle(src, call, got)
	return nil
}

// finishIfIdle ends the triggers that end by themselves.
func (f *readFn) finishIfIdle(src *source, call *queue.Call[Message], got int) {
	switch f.Config.Trigger {
	case TriggerOnce:
		call.Finish(0)
	case TriggerAvailableNow:
		switch {
		case got > 0 || call.Blocked():
			src.empty.Store(0)
		case src.empty.Add(1) >= idlePolls:
			call.Finish(0)
		}
	}
}

// after is how ProcessElement returns.
func (f *readFn) after(rt *sdf.LockRTracker, t *queue.Tracker, res queue.Result, err error) (sdf.ProcessContinuation, error) {
	switch {
	case err != nil:
		return sdf.StopProcessing(), err
	case res.Err != nil:
		return sdf.StopProcessing(), res.Err
	case res.Refused:
		return sdf.StopProcessing(), nil
	case res.Done:
		rt.Mu.Lock()
		defer rt.Mu.Unlock()
		t.Finish()
		return sdf.StopProcessing(), nil
	default:
		return sdf.ResumeProcessingIn(res.Resume), nil
	}
}

// eventTimeOf is t as Beam has it, within Beam's range.
func eventTimeOf(t time.Time) beam.EventTime {
	return min(max(mtime.FromTime(t), mtime.MinTimestamp), mtime.MaxTimestamp)
}

// source is the reader of the slot, made on the slot's first call here.
func (f *readFn) source(ctx context.Context, slot int64, prepared []byte) (*source, error) {
	// Each instance has its decoder, also one that finds the reader of another.
	if err := f.learn(prepared); err != nil {
		return nil, err
	}
	key := queue.ReaderKey(commit.WorkerID(ctx), f.Nonce, slot)
	if src, ok := readers.Find(key); ok {
		return src, nil
	}
	wm, err := f.Config.watermark()
	if err != nil {
		return nil, err
	}
	return readers.Get(key, func() *source {
		in := &inlet{conn: f.Conn, cfg: f.Config, sub: *f.sub}
		src := &source{inlet: in}
		in.lease = func() time.Duration { return f.Config.ackDeadline(time.Duration(in.commitInterval.Load())) }
		src.Reader = queue.New(queue.Config{
			Key:           key,
			Name:          f.sub.Name,
			Policy:        commit.PolicyFor(ctx, f.Config.Runner),
			CommitTimeout: f.Config.CommitTimeout,
			MaxMessages:   f.Config.MaxOutstandingMessages,
			MaxBytes:      f.Config.MaxOutstandingBytes,
			Lease:         in.lease,
			EarlyAck:      f.Config.AckMode == AckEarly,
			Remember:      f.Config.remember(),
			Watermark:     wm,
		}, in)
		in.stats = src.Stats()
		src.OnClose = func() { readers.Remove(key, src) }
		return src
	}), nil
}

// learn takes what the step before the source has found.
func (f *readFn) learn(prepared []byte) error {
	if f.sub != nil {
		return nil
	}
	sub := &subscription{}
	if err := json.Unmarshal(prepared, sub); err != nil {
		return fmt.Errorf("decoding subscription: %w", err)
	}
	if err := f.decode.prepare(*sub); err != nil {
		return err
	}
	f.sub = sub
	return nil
}

// remembered is how many ids of acknowledged messages a reader with an
// IDAttribute keeps, for ten minutes.
const remembered = 100_000

func (c *readConfig) remember() int {
	if c.IDAttribute == "" {
		return 0
	}
	return remembered
}

// watermark is the configuration of the reader's watermark.
func (c *readConfig) watermark() (queue.Watermark, error) {
	w := queue.Watermark{
		Policy:    queue.WatermarkPolicy(c.WatermarkPolicy),
		IdleAfter: c.IdleThreshold,
		MaxLag:    c.MaxLag,
		Behind:    c.TimestampSlack,
		// A message of a reader that died comes again when its lease has ended.
		Horizon: c.ackDeadline(0),
	}
	if c.WatermarkFunc == "" {
		return w, nil
	}
	f, err := watermarkFunc(c.WatermarkFunc)
	if err != nil {
		return w, fmt.Errorf("watermarkFunc %s: %w", strconv.Quote(c.WatermarkFunc), err)
	}
	w.Policy = queue.UserFunction
	w.Function = func(in queue.WatermarkInput) time.Time {
		return f(WatermarkState{Now: in.Now, Previous: in.Current, Newest: in.NewestReceived, OldestHeld: in.OldestHeld, Idle: in.Silence})
	}
	return w, nil
}
