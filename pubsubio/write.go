package pubsubio

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/beam-brokers/beam-brokers/internal/batch"
	"github.com/beam-brokers/beam-brokers/internal/prism"
)

func init() {
	register.DoFn5x1[context.Context, beam.EventTime, Message, func(beam.EventTime, PublishResult), func(beam.EventTime, FailedMessage), error](&writeFn{})
	register.DoFn6x1[context.Context, beam.EventTime, Message, func(beam.EventTime, PublishResult), func(beam.EventTime, FailedMessage), func(beam.EventTime, int64, chunk), error](&splitFn{})
	register.DoFn5x1[context.Context, beam.EventTime, chunk, func(beam.EventTime, PublishResult), func(beam.EventTime, FailedMessage), error](&writeChunkFn{})
	register.DoFn7x1[context.Context, beam.EventTime, state.Provider, timers.Provider, int64, chunk, func(beam.EventTime, chunk), error](&batch.Coalesce[Message]{})
	register.Emitter2[beam.EventTime, PublishResult]()
	register.Emitter2[beam.EventTime, FailedMessage]()
	register.Emitter2[beam.EventTime, chunk]()
	register.Emitter3[beam.EventTime, int64, chunk]()
	register.Function1x2(encodeChunk)
	register.Function1x2(decodeChunk)
	beam.RegisterType(reflect.TypeFor[PublishResult]())
	beam.RegisterType(reflect.TypeFor[FailedMessage]())
	beam.RegisterType(reflect.TypeFor[chunk]())
	beam.RegisterCoder(reflect.TypeFor[chunk](), encodeChunk, decodeChunk)
}

func encodeChunk(c chunk) ([]byte, error) { return batch.Encode(c) }
func decodeChunk(b []byte) (chunk, error) { return batch.Decode[Message](b) }

// A WriteResult holds the outcomes of a Write: every input message is in
// exactly one of the two, with the event time of its element, in the global
// window.
//
// A bundle that fails is run again by its runner, and publishes again what it
// had published: Published tells what was published at least once.
type WriteResult struct {
	// Published holds a PublishResult for each message that the service took.
	Published beam.PCollection
	// Failed holds a FailedMessage for each other one.
	Failed beam.PCollection
}

// Write publishes a PCollection<Message>. Without the Topic option each message
// goes to the topic it names. It panics where TryWrite returns an error.
func Write(s beam.Scope, conn Connection, col beam.PCollection, opts ...WriteOption) WriteResult {
	r, err := TryWrite(s, conn, col, opts...)
	if err != nil {
		panic(fmt.Sprintf("pubsubio.Write: %v", err))
	}
	return r
}

// TryWrite is Write with an error that joins every mistake of the options. It
// opens no connection.
//
// A message that cannot be published goes to Failed: at once where a limit of
// the service or its topic forbids it, after MaxAttempts or PublishTimeout
// otherwise, then with Unknown set where an answer is missing. The bundle goes
// on.
//
// Messages with an ordering key are published with their bundle in every
// batching mode, in order: exact batching would let one overtake another.
func TryWrite(s beam.Scope, conn Connection, col beam.PCollection, opts ...WriteOption) (WriteResult, error) {
	c, err := newWriteConfig(conn, opts...)
	if err != nil {
		return WriteResult{}, err
	}
	if !col.IsValid() {
		return WriteResult{}, fmt.Errorf("taking messages to write: the PCollection is not valid")
	}
	if t := col.Type().Type(); t != reflect.TypeFor[Message]() {
		return WriteResult{}, fmt.Errorf("taking messages to write: they are of type %v, not pubsubio.Message", t)
	}
	s = s.Scope("pubsubio.Write")
	// What a bundle leaves over, and outcomes that come at its end, are in the
	// global window whatever the input's is; so make it the global one.
	col = beam.WindowInto(s, window.NewGlobalWindows(), col)
	w := writeFn{Conn: conn, Config: c, Nonce: rand.Text()}
	r := c.route()
	if !r.Keyed && c.Batching != BatchExact {
		ok, bad := beam.ParDo2(s, &w, col)
		return WriteResult{ok, bad}, nil
	}
	prism.DisableSplits()
	ok1, bad1, rest := beam.ParDo3(s, &splitFn{Conn: w.Conn, Config: w.Config, Nonce: w.Nonce, Route: r}, col)
	whole := beam.ParDo(s, batch.NewCoalesce[Message](c.limits(), c.BatchDelay), rest)
	ok2, bad2 := beam.ParDo2(s, &writeChunkFn{Conn: w.Conn, Config: w.Config, Nonce: w.Nonce}, whole)
	return WriteResult{beam.Flatten(s, ok1, ok2), beam.Flatten(s, bad1, bad2)}, nil
}

// limits returns what closes a publish request.
func (c *writeConfig) limits() batch.Limits {
	return batch.Limits{Count: c.BatchCount, Bytes: max(int(c.BatchSize)-topicRoom, 1)}
}

// remainderShards is the number of shards of exact batching where MaxWorkers
// does not say it and several workers may share the job.
const remainderShards = 20

// A route says how chunks leave the bundle that made them.
type route struct {
	// Keyed: every chunk goes through a shard, because MaxWorkers bounds the
	// workers that publish. Otherwise only remainders of exact batching do.
	Keyed bool
	// Shards is the number of shards. One is enough on Prism, a single process,
	// and fills batches best.
	Shards int64
	// Wait: a remainder waits in its shard for others.
	Wait bool
}

func (c *writeConfig) route() route {
	r := route{Shards: 1, Wait: c.Batching == BatchExact}
	if c.Runner == "" || prism.Is(c.Runner) {
		return r
	}
	r.Keyed, r.Shards = c.MaxWorkers > 0, remainderShards
	if c.MaxWorkers > 0 {
		r.Shards = int64(c.MaxWorkers)
	}
	return r
}

// writeFn publishes everything with its bundle: bundle and streaming batching.
type writeFn struct {
	Conn   Connection
	Config writeConfig
	Nonce  string // of this Write

	sink   sink
	chunks *batch.Chunker[Message]
}

// Setup prepares the way to the broker; connections are opened by the first
// batch.
func (f *writeFn) Setup() { f.sink.setUp(f.Conn, &f.Config, f.Nonce) }

// StartBundle begins a bundle.
func (f *writeFn) StartBundle(ctx context.Context, _ func(beam.EventTime, PublishResult), _ func(beam.EventTime, FailedMessage)) {
	f.sink.start(ctx)
	f.chunks = batch.NewChunker[Message](f.Config.limits())
}

// ProcessElement publishes the batches that m fills, in the background.
func (f *writeFn) ProcessElement(ctx context.Context, et beam.EventTime, m Message,
	ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage),
) error {
	err := f.sink.submitAll(ctx, f.sink.chunk(ctx, f.chunks, et, m, bad))
	f.sink.drain(ctx, ok, bad)
	return err
}

// FinishBundle publishes the rest and waits for every answer.
func (f *writeFn) FinishBundle(ctx context.Context, ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage)) error {
	if err := f.sink.submitAll(ctx, f.chunks.Flush()); err != nil {
		return err
	}
	return f.sink.finish(ctx, ok, bad)
}
