// Command pubsub-kill checks that a bridge that is killed with -9 and started
// again loses nothing and repeats no more than what was outstanding.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

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

func main() { checks.Main("check-pubsub-kill", 40*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	c, err := checks.StartCopy(ctx, *broker, *n, *size, *limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if *delay > 0 {
		if c.Broker.Fake == nil {
			return "", errors.New("-delay needs -broker fake")
		}
		c.Broker.Fake.Inject(pubsubfake.Fault{Method: "Publish", Topic: c.To, Delay: *delay})
	}
	killed := 0
	for i := range *kills + 1 {
		p, err := c.RunUntil(ctx, *n*(i+1)/(*kills+1))
		if err != nil {
			return "", err
		}
		defer p.Kill()
		if i < *kills {
			p.Kill()
			killed++
			checks.Say("killed with %d messages written", c.Book.Unique())
			continue
		}
		// The killed ones may have written messages that they had no time to
		// acknowledge: the bridge has to be there when these come again.
		if err := c.AwaitLeases(ctx); err != nil {
			return "", err
		}
		if _, err := p.Stop(checks.StopWithin); err != nil {
			return "", err
		}
	}
	left, err := c.Finish(ctx)
	if err != nil {
		return "", err
	}
	most := killed * *limit
	summary := fmt.Sprintf("%s, %d messages, %d kills: missing %d duplicates %d (at most %d) left %d",
		c.Broker.Name, *n, killed, *n-c.Book.Unique(), c.Book.Copies(), most, left)
	return summary, c.Claims(most, left)
}
