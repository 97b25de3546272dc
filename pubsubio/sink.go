package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/beam-brokers/beam-brokers/internal/batch"
	"github.com/beam-brokers/beam-brokers/internal/publish"
)

// The metrics of a Write; their names are the same in every connector.
var (
	published        = beam.NewCounter("pubsubio", "published")
	failed           = beam.NewCounter("pubsubio", "failed")
	unknown          = beam.NewCounter("pubsubio", "unknown")
	retried          = beam.NewCounter("pubsubio", "retried")
	batchSize        = beam.NewDistribution("pubsubio", "batch_size")
	publishLatencyMs = beam.NewDistribution("pubsubio", "publish_latency_ms")
)

// A sink is what the DoFns of a Write have in common: the bundle's session with
// the broker, and the outcomes' way to the outputs. Its methods are called by
// the bundle's thread.
type sink struct {
	config  *writeConfig
	to      *publish.Publisher[item, string]
	session *publish.Session[item, string]
}

func (k *sink) setUp(conn Connection, c *writeConfig, nonce string) {
	k.config, k.to = c, newPublisher(conn, c, nonce)
}

// start begins a bundle. A session that is still there belongs to a bundle
// that failed; what it has in flight is given up.
func (k *sink) start(ctx context.Context) {
	if k.session != nil {
		k.session.Close()
	}
	k.session = k.to.NewSession(ctx)
}

// chunk adds m to the bundle's chunks and returns those that go on now. A
// message that the service would refuse goes to bad at once.
func (k *sink) chunk(ctx context.Context, chunks *batch.Chunker[Message], et beam.EventTime, m Message, bad func(beam.EventTime, FailedMessage)) []chunk {
	it := item{Value: m, Time: int64(et)}
	topic, err := k.config.destination(m)
	if err != nil {
		k.refuse(ctx, it, fmt.Errorf("choosing the topic: %w", err), bad)
		return nil
	}
	key := k.config.orderingKey(m)
	if !k.config.checksInOrder(m) {
		if err := k.config.check(m, it.Time, topic); err != nil {
			k.refuse(ctx, it, fmt.Errorf("checking the message for %s: %w", topic, err), bad)
			return nil
		}
	}
	it.Bytes = k.config.itemBytes(m, it.Time)
	order := ""
	if key != "" {
		order = topic + "\x00" + key
	}
	return chunks.Add(topic, order, it, time.Now())
}

func (k *sink) refuse(ctx context.Context, it item, err error, bad func(beam.EventTime, FailedMessage)) {
	failed.Inc(ctx, 1)
	bad(beam.EventTime(it.Time), FailedMessage{Message: it.Value, Reason: err.Error(), Permanent: true})
}

func (k *sink) submitAll(ctx context.Context, cs []chunk) error {
	for _, c := range cs {
		if err := k.submit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// submit publishes c in the background; it blocks while too much is in flight.
func (k *sink) submit(ctx context.Context, c chunk) error {
	batchSize.Update(ctx, int64(len(c.Items)))
	return k.session.Submit(publish.Batch[item]{
		Destination: c.Destination, Order: c.Order, Messages: c.Items, Bytes: c.Bytes(),
	})
}

// drain emits the outcomes that are there.
func (k *sink) drain(ctx context.Context, ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage)) {
	k.emit(ctx, k.session.Drain(), ok, bad)
}

// finish waits for all outcomes of the bundle and emits them. Where they cannot
// be had the bundle fails.
func (k *sink) finish(ctx context.Context, ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage)) error {
	defer k.session.Close()
	out, err := k.session.Wait(ctx)
	if err != nil {
		return err
	}
	k.emit(ctx, out, ok, bad)
	return nil
}

func (k *sink) emit(ctx context.Context, out []publish.Outcome[item, string], ok func(beam.EventTime, PublishResult), bad func(beam.EventTime, FailedMessage)) {
	for i := range out {
		o := &out[i]
		if o.Attempts > 1 {
			retried.Inc(ctx, int64(o.Attempts-1))
		}
		et := beam.EventTime(o.Message.Time)
		if o.Err == nil {
			published.Inc(ctx, 1)
			ok(et, k.result(ctx, o))
			continue
		}
		failed.Inc(ctx, 1)
		if o.Unknown {
			unknown.Inc(ctx, 1)
		}
		bad(et, k.failure(o))
	}
}

func (k *sink) result(ctx context.Context, o *publish.Outcome[item, string]) PublishResult {
	m := o.Message.Value
	topic, _ := k.config.destination(m) // it had one to be published
	r := PublishResult{ID: m.MessageID, Topic: topic, MessageID: o.Value}
	if id, has := m.Attributes[k.config.IDAttribute]; has && k.config.IDAttribute != "" {
		r.ID = id
	}
	if k.config.PublishLatencyMetrics {
		r.Latency = o.Latency
		publishLatencyMs.Update(ctx, o.Latency.Milliseconds())
	}
	return r
}

func (k *sink) failure(o *publish.Outcome[item, string]) FailedMessage {
	m := o.Message.Value
	topic, _ := k.config.destination(m)
	reason := fmt.Sprintf("publishing to %s: %v", topic, o.Err)
	var refused *refusal
	var held *publish.HeldError
	if errors.As(o.Err, &refused) && !errors.As(o.Err, &held) {
		reason = fmt.Sprintf("checking the message for %s: %v", topic, o.Err)
	}
	return FailedMessage{
		Message: m, Reason: reason,
		Permanent: o.Permanent, Unknown: o.Unknown, Attempts: o.Attempts,
	}
}
