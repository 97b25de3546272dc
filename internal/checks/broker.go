package checks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/rawpubsub"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
	"github.com/beam-brokers/beam-brokers/testing/realbrokers"
)

// A Broker is a Pub/Sub emulator and a client of it.
type Broker struct {
	Name    string
	Address string
	*rawpubsub.Client
	// Fake is the server where it is ours, else nil.
	Fake *pubsubfake.Server
	stop func()
}

// The brokers of the -broker flag.
const (
	AnyBroker  = "auto"     // the official emulator where it is installed, else ours
	Emulator   = "emulator" // Google's
	FakeBroker = "fake"     // testing/pubsubfake
)

// StartBroker starts a broker. Ours runs in this process, apart from the
// program under test.
func StartBroker(ctx context.Context, kind string, opts ...pubsubfake.Option) (*Broker, error) {
	switch kind {
	case AnyBroker, Emulator:
		address, stop, err := realbrokers.PubSubEmulator(ctx)
		if err == nil {
			return connect(ctx, &Broker{Name: "official emulator", Address: address, stop: stop})
		}
		if kind == Emulator || !errors.Is(err, realbrokers.ErrNotInstalled) {
			return nil, err
		}
		// As the emulator: streams ignore flow control.
		opts = append(opts, pubsubfake.WithoutFlowControl())
	case FakeBroker:
	default:
		return nil, fmt.Errorf("-broker=%s: is none of %s, %s, %s", kind, AnyBroker, Emulator, FakeBroker)
	}
	server := pubsubfake.New(append(opts, pubsubfake.WithoutHistory())...)
	address, err := server.Start("127.0.0.1:0")
	if err != nil {
		server.Close()
		return nil, err
	}
	return connect(ctx, &Broker{Name: "pubsubfake", Address: address, Fake: server, stop: server.Close})
}

func connect(ctx context.Context, b *Broker) (*Broker, error) {
	c, err := rawpubsub.Dial(ctx, b.Address)
	if err != nil {
		b.stop()
		return nil, err
	}
	b.Client = c
	return b, nil
}

// Stop ends the broker and its client.
func (b *Broker) Stop() {
	_ = b.Close() // the broker ends as well
	b.stop()
}

// Project is the project of the checks.
const Project = "check-project"

// Topic is the full name of a topic.
func Topic(id string) string { return "projects/" + Project + "/topics/" + id }

// Subscription is the full name of a subscription.
func Subscription(id string) string { return "projects/" + Project + "/subscriptions/" + id }

// Pair creates the topic ID-topic and its subscription ID-sub, and returns their full
// names.
func (b *Broker) Pair(ctx context.Context, id string, ackDeadline time.Duration) (topic, sub string, err error) {
	topic, sub = Topic(id+"-topic"), Subscription(id+"-sub")
	return topic, sub, b.Create(ctx, topic, sub, ackDeadline)
}

// Left takes what can still be had from a subscription, acknowledging it, until
// nothing has come for quiet.
func (b *Broker) Left(ctx context.Context, sub string, n int, quiet time.Duration) (*Book, error) {
	book := NewBook(n)
	return book, b.Drain(ctx, sub, quiet, book.Receive)
}
