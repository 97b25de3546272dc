// Command relay copies a Pub/Sub subscription to a topic: the pipeline of the
// README, to start one's own from.
//
//	go run ./pipelines/relay --project=my-project --from=orders-sub --to=orders-copy
//
// Add --runner=dataflow, flink or universal with their flags to run it
// elsewhere; PUBSUB_EMULATOR_HOST leads it to an emulator. A failed message
// ends the job: its source message stays unacknowledged.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/gcpopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

var (
	from = flag.String("from", "", "subscription to read")
	to   = flag.String("to", "", "topic to write")
)

func init() { register.Function1x1(refuse) }

// refuse fails the bundle of a message that could not be written, so that
// nothing of it is acknowledged.
func refuse(f pubsubio.FailedMessage) error {
	return fmt.Errorf("publishing message %q: %s", f.Message.MessageID, f.Reason)
}

func main() {
	flag.Parse()
	beam.Init()

	conn := pubsubio.Connection{
		ProjectID:    *gcpopts.Project, // Beam's own --project flag
		EmulatorHost: os.Getenv("PUBSUB_EMULATOR_HOST"),
	}
	p, s := beam.NewPipelineWithRoot()
	// A copy wants attributes and ordering keys too, which are off by default.
	in := pubsubio.Read(s, conn, *from, pubsubio.MetadataFull)
	out := pubsubio.Write(s, conn, in.Messages, pubsubio.Topic(*to))
	beam.ParDo0(s, refuse, out.Failed)

	if err := beamx.Run(context.Background(), p); err != nil {
		log.Fatal(err)
	}
}
