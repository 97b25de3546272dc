package pubsubio

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// metricsNamespace is the namespace of all metrics of this package.
const metricsNamespace = "pubsubio"

// ownMetrics are the Spark connector's metrics, by their names, beside those
// that every connector has (internal/queue).
type ownMetrics struct {
	messages, bytes, newestAge, outstanding beam.Gauge
	produced, consumed                      beam.Gauge
	attempts, attemptsTotal                 beam.Gauge
	fallbacks                               beam.Gauge

	newest time.Time // of the call that is running
}

func newOwnMetrics() *ownMetrics {
	g := func(name string) beam.Gauge { return beam.NewGauge(metricsNamespace, name) }
	return &ownMetrics{
		messages:      g("lastGatherMessageCount"),
		bytes:         g("lastGatherPayloadBytes"),
		newestAge:     g("lastGatherNewestMessageAgeMs"),
		outstanding:   g("outstandingPayloadBytes"),
		produced:      g("lastProducedBatchId"),
		consumed:      g("lastConsumedBatchId"),
		attempts:      g("pubsubRetryAttempts"),
		attemptsTotal: g("pubsubRetryAttemptsTotal"),
		fallbacks:     g("timestamp_fallback_total"),
	}
}

func (m *ownMetrics) gathered(msg *Message) {
	if msg.PublishTime.After(m.newest) {
		m.newest = msg.PublishTime
	}
}

// report sets the gauges at the end of a call. epoch is the batch's number.
func (m *ownMetrics) report(ctx context.Context, src *source, res queue.Result, epoch int64) {
	if res.Emitted > 0 { // a call that found nothing is no batch
		m.messages.Set(ctx, int64(res.Emitted))
		m.bytes.Set(ctx, res.Bytes)
		m.newestAge.Set(ctx, time.Since(m.newest).Milliseconds())
		m.produced.Set(ctx, epoch)
	}
	m.newest = time.Time{}
	m.outstanding.Set(ctx, src.HeldBytes())
	m.consumed.Set(ctx, src.LastCommitted())
	last, total := src.inlet.retry.read()
	m.attempts.Set(ctx, last)
	m.attemptsTotal.Set(ctx, total)
	m.fallbacks.Set(ctx, timestampFallbacks.Load())
}

// A retryCounter counts retries of acks and nacks.
type retryCounter struct{ sinceRead, total atomic.Int64 }

func (c *retryCounter) count() {
	c.sinceRead.Add(1)
	c.total.Add(1)
}

// read returns the retries since the last read, and all.
func (c *retryCounter) read() (last, total int64) { return c.sinceRead.Swap(0), c.total.Load() }
