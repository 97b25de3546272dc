// Command slow-sink checks that a sink much slower than the source neither
// fills memory nor lets leases run out.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/checks"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

var (
	n       = flag.Int("n", 100_000, "messages waiting at the source")
	size    = flag.Int("size", 10<<10, "bytes of each")
	rate    = flag.Int("rate", 50, "messages a second that the sink takes")
	limit   = flag.Int("limit", 1000, "most messages outstanding")
	bytes   = flag.Int("bytes", 64<<20, "most bytes outstanding")
	seconds = flag.Int("seconds", 120, "how long to look")
	more    = flag.Int("rss", 200, "most MiB of memory above that of an idle bridge")
)

const ackDeadline = 10 * time.Second

func main() { checks.Main("check-slow-sink", 15*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	b, err := checks.StartBroker(ctx, checks.FakeBroker)
	if err != nil {
		return "", err
	}
	defer b.Stop()
	from, fromSub, err := b.Pair(ctx, "from", ackDeadline)
	if err != nil {
		return "", err
	}
	to, _, err := b.Pair(ctx, "to", ackDeadline)
	if err != nil {
		return "", err
	}
	// One request at a time, a second long: *rate messages a second.
	b.Fake.Inject(pubsubfake.Fault{Method: "Publish", Topic: to, Delay: time.Second})
	bridge, err := checks.NewBridge(ctx,
		[]string{
			"emulatorHost=" + b.Address, "subscription=" + fromSub, "ackDeadline=10s",
			fmt.Sprintf("maxOutstandingMessages=%d", *limit), fmt.Sprintf("maxOutstandingBytes=%d", *bytes),
		},
		[]string{
			"emulatorHost=" + b.Address, "topic=" + to,
			fmt.Sprintf("batchCount=%d", *rate), fmt.Sprintf("maxOutstandingMessages=%d", *rate),
		})
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
	if err := checks.Sleep(ctx, 5*time.Second); err != nil {
		return "", err
	}
	base, _, err := p.Memory()
	if err != nil {
		return "", err
	}
	if err := b.Fake.Load(from, *n, *size); err != nil {
		return "", err
	}
	checks.Say("idle at %d MiB; %d messages of %d bytes wait now", base>>20, *n, *size)
	if err := checks.Sleep(ctx, time.Duration(*seconds)*time.Second); err != nil {
		return "", err
	}
	_, peak, err := p.Memory()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, p.Tail())
	}
	s, t := b.Fake.Stats(fromSub), b.Fake.TopicStats(to)
	checks.Say("%s", p.Tail())
	took, err := p.Stop(checks.StopWithin)
	if err != nil {
		return "", err
	}
	written := float64(t.Messages) / float64(*seconds)
	summary := fmt.Sprintf("%d x %d B at %.0f msg/s for %d s: unsettled at most %d, memory at most base + %d MiB, %d leases expired, stopped in %.1fs",
		*n, *size, written, *seconds, s.PeakOutstanding, (peak-base)>>20, s.Expired, took.Seconds())
	var c checks.Claims
	c.That(s.PeakOutstanding <= int64(*limit), "%d unsettled, more than %d", s.PeakOutstanding, *limit)
	c.That((peak-base)>>20 <= int64(*more), "memory grew by %d MiB, more than %d", (peak-base)>>20, *more)
	c.That(s.Expired == 0, "%d leases expired", s.Expired)
	c.That(written > 0.8*float64(*rate) && written < 1.2*float64(*rate), "the sink took %.0f msg/s, not %d: the check proves nothing", written, *rate)
	return summary, c.Err()
}
