// Command pubsub-reject checks that a sink which refuses messages for good
// never makes the bridge acknowledge what arrived nowhere: without a dead letter
// topic the bridge stops, with one it goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"syscall"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/internal/checks"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

var (
	n      = flag.Int("n", 20_000, "messages")
	size   = flag.Int("size", 1024, "bytes of each")
	limit  = flag.Int("limit", 1000, "most messages outstanding")
	every  = flag.Int("every", 100, "every which message is refused")
	broker = flag.String("broker", checks.AnyBroker, "of the source: auto, emulator or fake")
)

const ackDeadline = 10 * time.Second

func main() { checks.Main("check-pubsub-reject", 20*time.Minute, run) }

func run(ctx context.Context) (string, error) {
	source, err := checks.StartBroker(ctx, *broker)
	if err != nil {
		return "", err
	}
	defer source.Stop()
	sink, err := checks.StartBroker(ctx, checks.FakeBroker)
	if err != nil {
		return "", err
	}
	defer sink.Stop()
	stopped, err := withoutDeadLetters(ctx, source, sink)
	if err != nil {
		return stopped, fmt.Errorf("without a dead letter topic: %w", err)
	}
	lettered, err := withDeadLetters(ctx, source, sink)
	if err != nil {
		return lettered, fmt.Errorf("with a dead letter topic: %w", err)
	}
	return fmt.Sprintf("%s, %d messages, each %dth refused: %s; %s", source.Name, *n, *every, stopped, lettered), nil
}

// A round is one filled source and a sink that refuses.
type round struct {
	source, sink  *checks.Broker
	fromSub, to   string
	book          *checks.Book // of what the sink took
	bridge        *checks.Bridge
	stopListening func() error
}

func begin(ctx context.Context, source, sink *checks.Broker, id string, more ...string) (*round, error) {
	from, fromSub, err := source.Pair(ctx, id+"-from", ackDeadline)
	if err != nil {
		return nil, err
	}
	to, toSub, err := sink.Pair(ctx, id+"-to", ackDeadline)
	if err != nil {
		return nil, err
	}
	sink.Fake.Inject(pubsubfake.Fault{
		Method: "Publish", Topic: to, Code: codes.InvalidArgument, Text: "refused by the check",
		Match: func(m *pubsubpb.PubsubMessage) bool { return checks.Number(m)%*every == 0 },
	})
	if err := source.Publish(ctx, from, *n, func(i int) *pubsubpb.PubsubMessage { return checks.Message(i, *size) }); err != nil {
		return nil, err
	}
	r := &round{source: source, sink: sink, fromSub: fromSub, to: to}
	r.book, r.stopListening = listen(ctx, sink, toSub)
	r.bridge, err = checks.NewBridge(ctx,
		[]string{"emulatorHost=" + source.Address, "subscription=" + fromSub, "ackDeadline=10s", fmt.Sprintf("maxOutstandingMessages=%d", *limit)},
		[]string{"emulatorHost=" + sink.Address, "topic=" + to}, more...)
	return r, err
}

// listen keeps the book of a subscription until stop.
func listen(ctx context.Context, b *checks.Broker, sub string) (book *checks.Book, stop func() error) {
	book = checks.NewBook(*n)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.Receive(ctx, sub, book.Receive) }()
	return book, func() error {
		cancel()
		return <-done
	}
}

// withoutDeadLetters wants the bridge to stop, and everything that it did not
// write to be in the subscription still.
func withoutDeadLetters(ctx context.Context, source, sink *checks.Broker) (string, error) {
	r, err := begin(ctx, source, sink, "stop")
	if err != nil {
		return "", err
	}
	defer r.bridge.Remove()
	const starts = 3
	for range starts {
		p, err := r.bridge.Start()
		if err != nil {
			return "", err
		}
		defer p.Kill()
		code, err := p.Wait(time.Minute)
		if err != nil {
			return "", err
		}
		checks.Say("exit code %d: %s", code, p.Tail())
		if code != 1 {
			return "", fmt.Errorf("exit code %d, not 1: %s", code, p.Tail())
		}
	}
	left, err := r.left(ctx)
	if err != nil {
		return "", err
	}
	gone := 0
	for i := range *n {
		if !r.book.Has(i) && !left.Has(i) {
			gone++
		}
	}
	refused := (*n + *every - 1) / *every
	summary := fmt.Sprintf("stopped %d times with code 1, written %d, still there %d, in neither %d", starts, r.book.Unique(), left.Unique(), gone)
	var c checks.Claims
	c.That(gone == 0, "acknowledged and written nowhere: %d", gone)
	c.That(left.Unique() >= refused, "of %d refused messages only %d are left", refused, left.Unique())
	return summary, c.Err()
}

// withDeadLetters wants every message in the sink or in the dead letter topic,
// over a SIGTERM and a kill in the middle.
func withDeadLetters(ctx context.Context, source, sink *checks.Broker) (string, error) {
	dead, deadSub, err := sink.Pair(ctx, "dead-letters", ackDeadline)
	if err != nil {
		return "", err
	}
	letters, stopLetters := listen(ctx, sink, deadSub)
	r, err := begin(ctx, source, sink, "dead", "--dead-letter", "pubsub",
		"--dead-letter-opt", "emulatorHost="+sink.Address, "--dead-letter-opt", "topic="+dead)
	if err != nil {
		return "", errors.Join(err, stopLetters())
	}
	defer r.bridge.Remove()
	ends := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM}
	for i, end := range ends {
		p, err := r.bridge.Start()
		if err != nil {
			return "", err
		}
		defer p.Kill()
		if err := checks.Ready(ctx, p); err != nil {
			return "", err
		}
		until := *n * (i + 1) / len(ends)
		err = checks.Wait(ctx, fmt.Sprintf("%d messages", until), 3*time.Minute, func() bool {
			return r.book.Unique()+letters.Unique() >= until || p.Ended()
		})
		if err != nil || p.Ended() {
			return "", fmt.Errorf("%d of %d came: %w: %s", r.book.Unique()+letters.Unique(), until, err, p.Tail())
		}
		if end == syscall.SIGKILL {
			p.Kill()
			continue
		}
		if _, err := p.Stop(checks.StopWithin); err != nil {
			return "", err
		}
	}
	left, err := r.left(ctx)
	if err != nil {
		return "", err
	}
	if err := stopLetters(); err != nil {
		return "", err
	}
	missing, astray := 0, 0
	for i := range *n {
		if !r.book.Has(i) && !letters.Has(i) {
			missing++
		}
		if refused := i%*every == 0; refused && r.book.Has(i) || !refused && letters.Has(i) {
			astray++
		}
	}
	copies := r.book.Copies() + letters.Copies()
	summary := fmt.Sprintf("with dead letters written %d, dead letters %d, missing %d, astray %d, duplicates %d (1 kill), left %d",
		r.book.Unique(), letters.Unique(), missing, astray, copies, left.Unique())
	var c checks.Claims
	c.That(missing == 0, "missing %d", missing)
	c.That(astray == 0, "in the wrong topic %d", astray)
	c.That(copies <= *limit, "duplicates %d, more than %d", copies, *limit)
	c.That(left.Unique() == 0, "left in the subscription %d", left.Unique())
	return summary, c.Err()
}

// left is what the source still has when every lease has ended.
func (r *round) left(ctx context.Context) (*checks.Book, error) {
	if err := checks.Sleep(ctx, 2*ackDeadline); err != nil {
		return nil, err
	}
	left, err := r.source.Left(ctx, r.fromSub, *n, 5*time.Second)
	return left, errors.Join(err, r.stopListening())
}
