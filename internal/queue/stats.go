package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// Stats are a Reader's counters.
type Stats struct {
	// Received counts deliveries, Redelivered those that the broker marks as
	// such or that are of a message held already; Replaced are the latter.
	Received, Redelivered, Replaced atomic.Int64
	// Deduplicated counts duplicates (another message of a known key) that were
	// not emitted.
	Deduplicated atomic.Int64
	// Emitted counts messages handed to the pipeline.
	Emitted atomic.Int64
	// Acked, Nacked and Released count what the broker was told; SettleFailed
	// what it did not take.
	Acked, Nacked, Released, SettleFailed atomic.Int64
	// Expired counts messages whose bundle's commit did not come in time.
	Expired atomic.Int64
	// Renewed counts lease renewals, LeaseExpired leases lost, AckExpired
	// acknowledgements that came after the end of the lease.
	Renewed, LeaseExpired, AckExpired atomic.Int64
	// Reconnects counts streams opened again.
	Reconnects atomic.Int64
	// DecodeFailed counts messages that could not be decoded.
	DecodeFailed atomic.Int64
	// WatermarkLag is the clock less the watermark, in nanoseconds.
	WatermarkLag atomic.Int64
}

// A Snapshot is what the readers of a process have done, and what they hold.
type Snapshot struct {
	Received, Redelivered, Deduplicated, Emitted, Acked, Nacked, Released, SettleFailed int64
	Expired, Renewed, LeaseExpired, AckExpired, Reconnects, DecodeFailed                int64
	// Buffered are received and not emitted, Unsettled all that are held.
	Buffered, Unsettled int64
	UnsettledBytes      int64
	OldestUnsettled     time.Duration
	WatermarkLag        time.Duration
	// Readers is the number of open readers.
	Readers int
}

func (s *Stats) addTo(o *Snapshot) {
	o.Received += s.Received.Load()
	o.Redelivered += s.Redelivered.Load()
	o.Deduplicated += s.Deduplicated.Load()
	o.Emitted += s.Emitted.Load()
	o.Acked += s.Acked.Load()
	o.Nacked += s.Nacked.Load()
	o.Released += s.Released.Load()
	o.SettleFailed += s.SettleFailed.Load()
	o.Expired += s.Expired.Load()
	o.Renewed += s.Renewed.Load()
	o.LeaseExpired += s.LeaseExpired.Load()
	o.AckExpired += s.AckExpired.Load()
	o.Reconnects += s.Reconnects.Load()
	o.DecodeFailed += s.DecodeFailed.Load()
}

func (r *Reader[M]) addTo(o *Snapshot) {
	r.stats.addTo(o)
	o.WatermarkLag = max(o.WatermarkLag, time.Duration(r.stats.WatermarkLag.Load()))
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Readers++
	o.Buffered += int64(r.buffer.len())
	o.Unsettled += int64(r.count())
	o.UnsettledBytes += r.bytes
	if e := r.held.first; e != nil {
		o.OldestUnsettled = max(o.OldestUnsettled, time.Since(e.received))
	}
}

// A Reporter copies a Reader's counters into Beam metrics, named alike in all
// connectors. Most counting happens outside of bundles, where Beam takes none,
// so a call reports what has come together since the last one. What was reported
// is the Reader's to know: several instances of a DoFn can share one, and an
// instance can outlive its Reader.
type Reporter struct {
	counters []counter
	gauges   []gauge
}

type counter struct {
	beam.Counter
	of func(*Snapshot) *int64
}

type gauge struct {
	beam.Gauge
	of func(*Snapshot) int64
}

// NewReporter reports under the namespace of a connector.
func NewReporter(namespace string) *Reporter {
	c := func(name string, of func(*Snapshot) *int64) counter {
		return counter{beam.NewCounter(namespace, name), of}
	}
	g := func(name string, of func(*Snapshot) int64) gauge {
		return gauge{beam.NewGauge(namespace, name), of}
	}
	return &Reporter{
		counters: []counter{
			c("received", func(s *Snapshot) *int64 { return &s.Received }),
			c("redelivered", func(s *Snapshot) *int64 { return &s.Redelivered }),
			c("deduplicated", func(s *Snapshot) *int64 { return &s.Deduplicated }),
			c("emitted", func(s *Snapshot) *int64 { return &s.Emitted }),
			c("acked", func(s *Snapshot) *int64 { return &s.Acked }),
			c("nacked", func(s *Snapshot) *int64 { return &s.Nacked }),
			c("released", func(s *Snapshot) *int64 { return &s.Released }),
			c("expired", func(s *Snapshot) *int64 { return &s.Expired }),
			c("lease_expired", func(s *Snapshot) *int64 { return &s.LeaseExpired }),
			c("ack_expired", func(s *Snapshot) *int64 { return &s.AckExpired }),
			c("renewed", func(s *Snapshot) *int64 { return &s.Renewed }),
			c("settle_failed", func(s *Snapshot) *int64 { return &s.SettleFailed }),
			c("decode_failed", func(s *Snapshot) *int64 { return &s.DecodeFailed }),
			c("reconnects", func(s *Snapshot) *int64 { return &s.Reconnects }),
		},
		gauges: []gauge{
			// What the broker holds it does not tell.
			g("backlog", func(s *Snapshot) int64 { return s.Buffered }),
			g("unsettled", func(s *Snapshot) int64 { return s.Unsettled }),
			g("unsettled_bytes", func(s *Snapshot) int64 { return s.UnsettledBytes }),
			g("oldest_unsettled_ms", func(s *Snapshot) int64 { return s.OldestUnsettled.Milliseconds() }),
			g("watermark_lag_ms", func(s *Snapshot) int64 { return s.WatermarkLag.Milliseconds() }),
		},
	}
}

// Report adds what r has counted since the last report to the bundle's metrics.
func Report[M any](ctx context.Context, p *Reporter, r *Reader[M]) {
	r.reports.Lock()
	defer r.reports.Unlock()
	var now Snapshot
	r.addTo(&now)
	for _, c := range p.counters {
		if d := *c.of(&now) - *c.of(&r.reports.last); d != 0 {
			c.Inc(ctx, d)
		}
	}
	for _, g := range p.gauges {
		g.Set(ctx, g.of(&now))
	}
	r.reports.last = now
}
