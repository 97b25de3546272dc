// Command pubsub-drain checks that a bridge that is stopped by SIGTERM in the
// middle and started again loses nothing and writes nothing twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

var (
	n      = flag.Int("n", 100_000, "messages")
	size   = flag.Int("size", 1024, "bytes of each")
	limit  = flag.Int("limit", 1000, "most messages outstanding")
	stops  = flag.Int("stops", 1, "how often the bridge is stopped in the middle")
	broker = flag.String("broker", checks.AnyBroker, "auto, emulator or fake")
)

const (
	ackDeadline = 10 * time.Second
	// stalled is when what has not come is taken for lost. The official emulator
	// goes on handing messages to the streams of killed clients, so the last ones
	// may need many leases to get through.
	stalled = 3 * time.Minute
)

func main() { checks.Main("check-pubsub-drain", 30*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	b, err := checks.StartBroker(ctx, *broker)
	if err != nil {
		return "", err
	}
	defer b.Stop()
	from, fromSub, err := b.Pair(ctx, "from", ackDeadline)
	if err != nil {
		return "", err
	}
	to, toSub, err := b.Pair(ctx, "to", ackDeadline)
	if err != nil {
		return "", err
	}
	bridge, err := checks.NewBridge(ctx,
		[]string{"emulatorHost=" + b.Address, "subscription=" + fromSub, "ackDeadline=10s", fmt.Sprintf("maxOutstandingMessages=%d", *limit)},
		[]string{"emulatorHost=" + b.Address, "topic=" + to})
	if err != nil {
		return "", err
	}
	defer bridge.Remove()
	checks.Say("publishing %d messages of %d bytes to the %s", *n, *size, b.Name)
	if err := b.Publish(ctx, from, *n, func(i int) *pubsubpb.PubsubMessage { return checks.Message(i, *size) }); err != nil {
		return "", err
	}
	book := checks.NewBook(*n)
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	read := make(chan error, 1)
	go func() { read <- b.Receive(reading, toSub, book.Receive) }()

	var slowest time.Duration
	for i := range *stops + 1 {
		p, err := bridge.Start()
		if err != nil {
			return "", err
		}
		defer p.Kill()
		if err := checks.Ready(ctx, p); err != nil {
			return "", err
		}
		until := *n * (i + 1) / (*stops + 1)
		err = checks.Wait(ctx, fmt.Sprintf("%d messages", until), 8*time.Minute, func() bool {
			return book.Unique() >= until || p.Ended() || book.Quiet() > stalled
		})
		if err != nil || book.Unique() < until {
			return "", errors.Join(fmt.Errorf("%d of %d came: %s", book.Unique(), until, p.Tail()), err)
		}
		took, err := p.Stop(checks.StopWithin)
		if err != nil {
			return "", err
		}
		slowest = max(slowest, took)
		checks.Say("stopped in %v with %d messages written: %s", took.Round(time.Millisecond), book.Unique(), p.Tail())
	}
	// What the broker had leased out would come again after its deadline.
	if err := checks.Sleep(ctx, 2*ackDeadline); err != nil {
		return "", err
	}
	left, err := b.Left(ctx, fromSub, *n, 5*time.Second)
	if err != nil {
		return "", err
	}
	stopReading()
	if err := <-read; err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%s, %d messages, %d stops in the middle: missing %d duplicates %d left %d, slowest stop %.1fs",
		b.Name, *n, *stops, *n-book.Unique(), book.Copies(), left.Unique(), slowest.Seconds())
	var c checks.Claims
	c.That(book.Unique() == *n, "missing %d", *n-book.Unique())
	c.That(book.Copies() == 0, "duplicates %d", book.Copies())
	c.That(book.Strange() == 0, "unknown messages %d", book.Strange())
	c.That(left.Unique() == 0, "left in the subscription %d", left.Unique())
	return summary, c.Err()
}
