// Command pubsub-kill checks that a bridge that is killed with -9 and started
// again loses nothing and repeats no more than what was outstanding.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/checks"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

var (
	n      = flag.Int("n", 100_000, "messages")
	size   = flag.Int("size", 1024, "bytes of each")
	limit  = flag.Int("limit", 1000, "most messages outstanding")
	kills  = flag.Int("kills", 5, "how often the bridge is killed")
	broker = flag.String("broker", checks.AnyBroker, "auto, emulator or fake")
	delay  = flag.Duration("delay", 0, "time the sink takes for a request; with -broker fake only")
)

const (
	ackDeadline = 10 * time.Second
	// stalled is when what has not come is taken for lost. The official emulator
	// goes on handing messages to the streams of killed clients, so the last ones
	// may need many leases to get through.
	stalled = 3 * time.Minute
)

func main() { checks.Main("check-pubsub-kill", 40*time.Minute, run) }

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
	if *delay > 0 {
		if b.Fake == nil {
			return "", errors.New("-delay needs -broker fake")
		}
		b.Fake.Inject(pubsubfake.Fault{Method: "Publish", Topic: to, Delay: *delay})
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

	killed := 0
	for i := range *kills + 1 {
		p, err := bridge.Start()
		if err != nil {
			return "", err
		}
		defer p.Kill()
		if err := checks.Ready(ctx, p); err != nil {
			return "", err
		}
		until := *n * (i + 1) / (*kills + 1)
		err = checks.Wait(ctx, fmt.Sprintf("%d messages", until), 8*time.Minute, func() bool {
			return book.Unique() >= until || p.Ended() || book.Quiet() > stalled
		})
		if err != nil || book.Unique() < until {
			return "", errors.Join(fmt.Errorf("%d of %d came: %s", book.Unique(), until, p.Tail()), err)
		}
		if i < *kills {
			p.Kill()
			killed++
			checks.Say("killed with %d messages written", book.Unique())
			continue
		}
		if _, err := p.Stop(checks.StopWithin); err != nil {
			return "", err
		}
	}
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
	summary := fmt.Sprintf("%s, %d messages, %d kills: missing %d duplicates %d (at most %d) left %d",
		b.Name, *n, killed, *n-book.Unique(), book.Copies(), killed**limit, left.Unique())
	var c checks.Claims
	c.That(book.Unique() == *n, "missing %d", *n-book.Unique())
	c.That(book.Copies() <= killed**limit, "duplicates %d, more than %d", book.Copies(), killed**limit)
	c.That(book.Strange() == 0, "unknown messages %d", book.Strange())
	c.That(left.Unique() == 0, "left in the subscription %d", left.Unique())
	return summary, c.Err()
}
