// Command plainprism is what a user writes: a plain beam.Run on Prism with an
// exact sink, no flag, no experiment. The service pauses before each answer,
// which makes bundles sit still. It prints how many messages are missing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/periodic"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

func init() {
	register.Function3x0(generate)
	register.Emitter1[pubsubio.Message]()
}

// perTick messages are made of each of the 250 ticks.
var perTick = flag.Int("per-tick", 80, "messages of a tick: 80 are a full batch and a remainder")

func generate(at beam.EventTime, _ []byte, emit func(pubsubio.Message)) {
	for i := range *perTick {
		emit(pubsubio.Message{Data: fmt.Appendf(nil, "%d-%d", at, i)})
	}
}

// outstanding of one batch makes the stateful stage itself sit still, which is
// where Prism loses messages when it may split.
var outstanding = flag.Int("outstanding", 10_000, "messages in flight at most")

func main() {
	flag.Parse()
	beam.Init()
	service := startService(300 * time.Millisecond)
	p, s := beam.NewPipelineWithRoot()
	ticks := periodic.Impulse(s, time.Now(), time.Now().Add(2*time.Second), 8*time.Millisecond, false) // 250
	pubsubio.Write(s, service.conn, beam.ParDo(s, generate, ticks),
		pubsubio.Topic("orders"), pubsubio.BatchExact, pubsubio.MaxOutstandingMessages(*outstanding))
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		fmt.Println("running the pipeline:", err)
		os.Exit(1)
	}
	service.report(250 * *perTick)
}
