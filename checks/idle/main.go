// Command idle checks that a bridge with nothing to do costs next to nothing,
// and still sees the first message soon.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

var (
	idle   = flag.Duration("idle", time.Minute, "how long nothing is published")
	cpu    = flag.Float64("cpu", 3, "most processor time meanwhile, percent of one core")
	first  = flag.Duration("first", 1500*time.Millisecond, "longest time to the first message after that")
	rounds = flag.Int("rounds", 3, "how often a first message is sent, 15 s apart after the first")
	broker = flag.String("broker", checks.FakeBroker, "auto, emulator or fake")
)

func main() { checks.Main("check-idle", 10*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	b, err := checks.StartBroker(ctx, *broker)
	if err != nil {
		return "", err
	}
	defer b.Stop()
	from, fromSub, err := b.Pair(ctx, "from", 10*time.Second)
	if err != nil {
		return "", err
	}
	to, toSub, err := b.Pair(ctx, "to", 10*time.Second)
	if err != nil {
		return "", err
	}
	bridge, err := checks.NewBridge(ctx, []string{"emulatorHost=" + b.Address, "subscription=" + fromSub},
		[]string{"emulatorHost=" + b.Address, "topic=" + to})
	if err != nil {
		return "", err
	}
	defer bridge.Remove()
	p, err := bridge.Start()
	if err != nil {
		return "", err
	}
	defer p.Kill()
	if err := checks.Ready(ctx, p); err != nil {
		return "", err
	}
	arrived := make(chan time.Time, 100)
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	go func() {
		// Its end is the end of the check.
		_ = b.Receive(reading, toSub, func(*pubsubpb.ReceivedMessage) { arrived <- time.Now() })
	}()
	// One message through, so that everything is open; then a rest.
	if _, err := through(ctx, b, from, 0, arrived); err != nil {
		return "", fmt.Errorf("%w: %s", err, p.Tail())
	}
	if err := checks.Sleep(ctx, 5*time.Second); err != nil {
		return "", err
	}
	before, err := p.CPU()
	if err != nil {
		return "", err
	}
	if err := checks.Sleep(ctx, *idle); err != nil {
		return "", err
	}
	after, err := p.CPU()
	if err != nil {
		return "", err
	}
	percent := 100 * float64(after-before) / float64(*idle)
	var slowest time.Duration
	for i := range *rounds {
		if i > 0 {
			if err := checks.Sleep(ctx, 15*time.Second); err != nil {
				return "", err
			}
		}
		took, err := through(ctx, b, from, i+1, arrived)
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, p.Tail())
		}
		slowest = max(slowest, took)
	}
	stopTook, err := p.Stop(checks.StopWithin)
	if err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%s, idle %v: %.2f%% of a core, first message seen after %v (slowest of %d), stopped in %v",
		b.Name, *idle, percent, slowest.Round(time.Millisecond), *rounds, stopTook.Round(time.Millisecond))
	var c checks.Claims
	c.That(percent <= *cpu, "%.2f%% of a core, more than %g%%", percent, *cpu)
	c.That(slowest < *first, "the first message took %v, not less than %v", slowest, *first)
	return summary, c.Err()
}

// through sends one message and waits for it at the other end.
func through(ctx context.Context, b *checks.Broker, topic string, i int, arrived <-chan time.Time) (time.Duration, error) {
	sent := time.Now()
	if err := b.Publish(ctx, topic, 1, func(int) *pubsubpb.PubsubMessage { return checks.Message(i, 100) }); err != nil {
		return 0, err
	}
	t := time.NewTimer(30 * time.Second)
	defer t.Stop()
	select {
	case at := <-arrived:
		return at.Sub(sent), nil
	case <-t.C:
		return 0, fmt.Errorf("message %d did not arrive within 30 s", i)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
