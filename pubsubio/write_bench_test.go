package pubsubio

import (
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// BenchmarkWrite drives the sink's DoFn as a runner does, in bundles of 10,000
// messages of 1 KiB, against the fake service.
func BenchmarkWrite(b *testing.B) {
	r := newWriteRig(b, pubsubfake.WithoutHistory())
	c, err := newWriteConfig(r.conn, Topic("orders"))
	if err != nil {
		b.Fatal(err)
	}
	f := &writeFn{Conn: r.conn, Config: c, Nonce: "bench"}
	f.Setup()
	m := Message{MessageID: "id", Data: make([]byte, 1024), Attributes: map[string]string{"a": "b"}}
	n := 0
	ok := func(beam.EventTime, PublishResult) { n++ }
	bad := func(_ beam.EventTime, m FailedMessage) { b.Errorf("failed: %s", m.Reason) }
	ctx := b.Context()
	b.SetBytes(1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%10_000 == 0 {
			if i > 0 {
				if err := f.FinishBundle(ctx, ok, bad); err != nil {
					b.Fatal(err)
				}
			}
			f.StartBundle(ctx, ok, bad)
		}
		if err := f.ProcessElement(ctx, 0, m, ok, bad); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.FinishBundle(ctx, ok, bad); err != nil {
		b.Fatal(err)
	}
	if n != b.N {
		b.Errorf("%d outcomes for %d messages", n, b.N)
	}
}
