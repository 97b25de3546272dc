// Command pubsub-drain checks that a bridge that is stopped by SIGTERM in the
// middle and started again loses nothing and writes nothing twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

var (
	n      = flag.Int("n", 100_000, "messages")
	size   = flag.Int("size", 1024, "bytes of each")
	limit  = flag.Int("limit", 1000, "most messages outstanding")
	stops  = flag.Int("stops", 1, "how often the bridge is stopped in the middle")
	broker = flag.String("broker", checks.AnyBroker, "auto, emulator or fake")
)

func main() { checks.Main("check-pubsub-drain", 30*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	c, err := checks.StartCopy(ctx, *broker, *n, *size, *limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var slowest time.Duration
	for i := range *stops + 1 {
		p, err := c.RunUntil(ctx, *n*(i+1)/(*stops+1))
		if err != nil {
			return "", err
		}
		defer p.Kill()
		took, err := p.Stop(checks.StopWithin)
		if err != nil {
			return "", err
		}
		slowest = max(slowest, took)
		checks.Say("stopped in %v with %d messages written: %s", took.Round(time.Millisecond), c.Book.Unique(), p.Tail())
	}
	left, err := c.Finish(ctx)
	if err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%s, %d messages, %d stops in the middle: missing %d duplicates %d left %d, slowest stop %.1fs",
		c.Broker.Name, *n, *stops, *n-c.Book.Unique(), c.Book.Copies(), left, slowest.Seconds())
	return summary, c.Claims(0, left)
}
