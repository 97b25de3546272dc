package pubsubio

import (
	"context"
	"hash/fnv"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/beam-brokers/beam-brokers/internal/batch"
)

// splitFn publishes the full batches of a bundle, as writeFn does, and sends
// what its Route says to a shard: the remainders of exact batching, or every
// batch where the number of publishing workers is bounded.
type splitFn struct {
	Conn   Connection
	Config writeConfig
	Nonce  string
	Route  route

	sink   sink
	chunks *batch.Chunker[Message]
	shard  int64
}

// bundles counts bundles in the process, to spread remainders over shards.
var bundles atomic.Int64

// Setup prepares the way to the broker.
func (f *splitFn) Setup() { f.sink.setUp(f.Conn, &f.Config, f.Nonce) }

// StartBundle begins a bundle.
func (f *splitFn) StartBundle(ctx context.Context, _ func(beam.EventTime, PublishResult), _ func(beam.EventTime, FailedMessage), _ func(beam.EventTime, int64, chunk)) {
	f.sink.start(ctx)
	f.chunks = batch.NewChunker[Message](f.Config.limits())
	f.shard = bundles.Add(1)
}

// ProcessElement sends the batches that m fills on their way.
func (f *splitFn) ProcessElement(ctx context.Context, et beam.EventTime, m Message,
	ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage), rest func(beam.EventTime, int64, chunk),
) error {
	err := f.send(ctx, f.sink.chunk(ctx, f.chunks, et, m, bad), rest)
	f.sink.drain(ctx, ok, bad)
	return err
}

// FinishBundle sends the rest on its way and waits for every answer.
func (f *splitFn) FinishBundle(ctx context.Context, ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage), rest func(beam.EventTime, int64, chunk)) error {
	if err := f.send(ctx, f.chunks.Flush(), rest); err != nil {
		return err
	}
	return f.sink.finish(ctx, ok, bad)
}

// send publishes a chunk here or gives it to a shard. A key's chunks all go the
// same way, in order, and never wait.
func (f *splitFn) send(ctx context.Context, cs []chunk, rest func(beam.EventTime, int64, chunk)) error {
	for _, c := range cs {
		c.Closed = c.Closed || c.Order != "" || !f.Route.Wait
		if c.Closed && !f.Route.Keyed {
			if err := f.sink.submit(ctx, c); err != nil {
				return err
			}
			continue
		}
		rest(beam.EventTime(c.MinTime()), f.shardOf(c), c)
	}
	return nil
}

// shardOf returns the shard of c: that of its ordering key, or for a remainder
// the bundle's, so that few remainders are left over; other chunks go round.
func (f *splitFn) shardOf(c chunk) int64 {
	switch {
	case c.Order != "":
		h := fnv.New32a()
		_, _ = h.Write([]byte(c.Order))
		return int64(h.Sum32()) % f.Route.Shards
	case c.Closed:
		f.shard++
	}
	return f.shard % f.Route.Shards
}

// writeChunkFn publishes the batches that come out of the shards.
type writeChunkFn struct {
	Conn   Connection
	Config writeConfig
	Nonce  string

	sink sink
}

// Setup prepares the way to the broker.
func (f *writeChunkFn) Setup() { f.sink.setUp(f.Conn, &f.Config, f.Nonce) }

// StartBundle begins a bundle.
func (f *writeChunkFn) StartBundle(ctx context.Context, _ func(beam.EventTime, PublishResult), _ func(beam.EventTime, FailedMessage)) {
	f.sink.start(ctx)
}

// ProcessElement publishes c in the background.
func (f *writeChunkFn) ProcessElement(ctx context.Context, _ beam.EventTime, c chunk,
	ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage),
) error {
	err := f.sink.submit(ctx, c)
	f.sink.drain(ctx, ok, bad)
	return err
}

// FinishBundle waits for every answer.
func (f *writeChunkFn) FinishBundle(ctx context.Context, ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage)) error {
	return f.sink.finish(ctx, ok, bad)
}
