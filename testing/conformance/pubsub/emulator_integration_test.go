//go:build integration

package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/rawpubsub"
	"github.com/beam-brokers/beam-brokers/testing/conformance"
	"github.com/beam-brokers/beam-brokers/testing/conformance/pubsub"
	"github.com/beam-brokers/beam-brokers/testing/realbrokers"
)

func TestConformanceOnEmulator(t *testing.T) {
	host, stop, err := realbrokers.PubSubEmulator(t.Context())
	if errors.Is(err, realbrokers.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	raw, err := rawpubsub.Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	h := &emulatorHarness{raw: raw, host: host, of: map[*testing.T]*proxy{}}
	conformance.Run(t, h, pubsub.Emulator)
}

// An emulatorHarness has a way to the emulator for each test, so that clients
// of one do not count in another.
type emulatorHarness struct {
	readers
	raw    *rawpubsub.Client
	host   string
	of     map[*testing.T]*proxy
	places int
}

func (h *emulatorHarness) way(t *testing.T) *proxy {
	p := h.of[t]
	if p == nil {
		var err error
		if p, err = newProxy(h.host); err != nil {
			t.Fatal(err)
		}
		h.of[t] = p
		t.Cleanup(func() {
			delete(h.of, t)
			p.close()
		})
	}
	return p
}

func (h *emulatorHarness) NewDestination(t *testing.T, o conformance.DestinationOptions) conformance.Destination {
	t.Helper()
	way := h.way(t)
	h.places++
	d := &emulatorPlace{place: newPlace(way.address(), h.places), proxy: way, raw: h.raw}
	d.copies = d.sub + "-copies"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, sub := range []string{d.sub, d.copies} {
		err := h.raw.Create(ctx, d.topic, sub, lease, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = o.Ordered })
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

type emulatorPlace struct {
	place
	*proxy
	raw    *rawpubsub.Client
	copies string // a subscription that Stored empties
	stored []conformance.Message
}

func (d *emulatorPlace) Publish(ctx context.Context, msgs ...conformance.Message) error {
	return d.raw.Publish(ctx, d.topic, len(msgs), func(i int) *pubsubpb.PubsubMessage { return toService(msgs[i]) })
}

// Stored waits a little longer than until there are n, for those too many.
func (d *emulatorPlace) Stored(ctx context.Context, n int) ([]conformance.Message, error) {
	quiet := 2 * time.Second
	for {
		err := d.raw.Drain(ctx, d.copies, quiet, func(m *pubsubpb.ReceivedMessage) {
			d.stored = append(d.stored, fromService(m.GetMessage()))
		})
		if err != nil || len(d.stored) >= n || ctx.Err() != nil {
			return d.stored, err
		}
	}
}

// Unacknowledged takes what can be had while every lease that may still last
// comes to its end, and gives it back.
func (d *emulatorPlace) Unacknowledged(ctx context.Context) (int, error) {
	held := map[string]string{} // message id -> ack id
	for end := time.Now().Add(lease + 2*time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		resp, err := d.raw.Subscriptions.Pull(ctx, &pubsubpb.PullRequest{
			Subscription: d.sub, MaxMessages: 1000, ReturnImmediately: true,
		})
		if err != nil {
			return 0, fmt.Errorf("pulling from %s: %w", d.sub, err)
		}
		for _, m := range resp.GetReceivedMessages() {
			held[m.GetMessage().GetMessageId()] = m.GetAckId()
		}
	}
	if len(held) == 0 {
		return 0, nil
	}
	back := &pubsubpb.ModifyAckDeadlineRequest{Subscription: d.sub}
	for _, id := range held {
		back.AckIds = append(back.AckIds, id)
	}
	if err := d.raw.Subscriptions.ModifyAckDeadline(ctx, back); err != nil {
		return 0, fmt.Errorf("giving back to %s: %w", d.sub, err)
	}
	return len(held), nil
}

func (d *emulatorPlace) Connections() (peak, allowed int) { return d.mostOpen(), 2 }
