// Command windows counts the messages of a subscription per key and minute of
// their publish time: an example of event-time windows on an unbounded source.
//
//	windows --project=my-project --subscription=orders-sub --key=customer
//
// It prints a line when a minute is over, that is, when the watermark has passed
// its end:
//
//	2026-11-30T12:01:00Z	customer-7	42
//
// The count stands behind a shuffle. On Prism that is in memory: a crash loses
// counts of messages that are acknowledged already. Flink and Dataflow keep it.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/gcpopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

var (
	subscription = flag.String("subscription", "", "subscription to read")
	key          = flag.String("key", "key", "attribute to count by")
)

func main() {
	flag.Parse()
	beam.Init()

	conn := pubsubio.Connection{
		ProjectID:    *gcpopts.Project, // Beam's own --project flag
		EmulatorHost: os.Getenv("PUBSUB_EMULATOR_HOST"),
	}
	p, s := beam.NewPipelineWithRoot()
	// Attributes are not read unless asked for. An element's timestamp is its
	// message's publish time.
	in := pubsubio.Read(s, conn, *subscription, pubsubio.MetadataFull)
	keys := beam.ParDo(s, &keyFn{Attribute: *key}, in.Messages)
	minutes := beam.WindowInto(s, window.NewFixedWindows(time.Minute), keys)
	beam.ParDo0(s, show, stats.Count(s, minutes))

	if err := beamx.Run(context.Background(), p); err != nil {
		log.Fatal(err)
	}
}
