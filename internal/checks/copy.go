package checks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const (
	copyLease = 10 * time.Second
	// stalled is when what has not come is taken for lost. The official emulator
	// goes on handing messages to the streams of killed clients, so the last ones
	// may need many leases to get through.
	stalled = 3 * time.Minute
)

// A Copy is what a bridge is to copy from a subscription to a topic, however
// often it is stopped or killed: N numbered messages and the book of those that
// arrived.
type Copy struct {
	N      int
	Broker *Broker
	Bridge *Bridge
	Book   *Book
	// To is the topic that is copied to.
	To string

	fromSub string
	stop    context.CancelFunc
	read    chan error
}

// StartCopy starts the broker, publishes n messages of size bytes, and begins to
// read what arrives. limit is the bridge's maxOutstandingMessages. Close it.
func StartCopy(ctx context.Context, broker string, n, size, limit int) (*Copy, error) {
	b, err := StartBroker(ctx, broker)
	if err != nil {
		return nil, err
	}
	c := &Copy{N: n, Broker: b, Book: NewBook(n), stop: func() {}, read: make(chan error, 1)}
	if err := c.start(ctx, size, limit); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Copy) start(ctx context.Context, size, limit int) error {
	b := c.Broker
	from, fromSub, err := b.Pair(ctx, "from", copyLease)
	if err != nil {
		return err
	}
	to, toSub, err := b.Pair(ctx, "to", copyLease)
	if err != nil {
		return err
	}
	c.To, c.fromSub = to, fromSub
	c.Bridge, err = NewBridge(ctx,
		[]string{"emulatorHost=" + b.Address, "subscription=" + fromSub, "ackDeadline=10s", fmt.Sprintf("maxOutstandingMessages=%d", limit)},
		[]string{"emulatorHost=" + b.Address, "topic=" + to})
	if err != nil {
		return err
	}
	Say("publishing %d messages of %d bytes to the %s", c.N, size, b.Name)
	if err := b.Publish(ctx, from, c.N, func(i int) *pubsubpb.PubsubMessage { return Message(i, size) }); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	c.stop = stop
	go func() { c.read <- b.Receive(reading, toSub, c.Book.Receive) }()
	return nil
}

// Close ends what StartCopy started.
func (c *Copy) Close() {
	c.stop()
	if c.Bridge != nil {
		c.Bridge.Remove()
	}
	c.Broker.Stop()
}

// RunUntil starts the bridge and waits until so many messages have arrived. The
// bridge is running when it returns without an error, and dead otherwise.
func (c *Copy) RunUntil(ctx context.Context, until int) (*Process, error) {
	p, err := c.Bridge.Start()
	if err != nil {
		return nil, err
	}
	if err := c.follow(ctx, p, until); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func (c *Copy) follow(ctx context.Context, p *Process, until int) error {
	if err := Ready(ctx, p); err != nil {
		return err
	}
	err := Wait(ctx, fmt.Sprintf("%d messages", until), 8*time.Minute, func() bool {
		return c.Book.Unique() >= until || p.Ended() || c.Book.Quiet() > stalled
	})
	if err != nil || c.Book.Unique() < until {
		return errors.Join(fmt.Errorf("%d of %d came: %s", c.Book.Unique(), until, p.Tail()), err)
	}
	return nil
}

// AwaitLeases waits until what the broker has leased out to a bridge that was
// killed has come again.
func (c *Copy) AwaitLeases(ctx context.Context) error { return Sleep(ctx, 2*copyLease) }

// Finish waits until what the broker had leased out would have come again, ends
// the reading, and returns how many messages are left in the subscription.
func (c *Copy) Finish(ctx context.Context) (left int, err error) {
	if err := c.AwaitLeases(ctx); err != nil {
		return 0, err
	}
	rest, err := c.Broker.Left(ctx, c.fromSub, c.N, 5*time.Second)
	if err != nil {
		return 0, err
	}
	c.stop()
	return rest.Unique(), <-c.read
}

// Claims are what holds of every copy: all there, at most so many twice, nothing
// else and nothing left.
func (c *Copy) Claims(duplicates, left int) error {
	var claims Claims
	claims.That(c.Book.Unique() == c.N, "missing %d", c.N-c.Book.Unique())
	claims.That(c.Book.Copies() <= duplicates, "duplicates %d, more than %d", c.Book.Copies(), duplicates)
	claims.That(c.Book.Strange() == 0, "unknown messages %d", c.Book.Strange())
	claims.That(left == 0, "left in the subscription %d", left)
	return claims.Err()
}
