package pubsub_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/testing/conformance"
	"github.com/beam-brokers/beam-brokers/testing/conformance/pubsub"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestConformanceOnFake(t *testing.T) {
	conformance.Run(t, &fakeHarness{of: map[*testing.T]*fakeServer{}}, pubsub.Fake)
}

// A fakeHarness has a server for each test.
type fakeHarness struct {
	readers
	of     map[*testing.T]*fakeServer
	places int
}

type fakeServer struct {
	*pubsubfake.Server
	host string
}

func (h *fakeHarness) server(t *testing.T) *fakeServer {
	if s := h.of[t]; s != nil {
		return s
	}
	s := &fakeServer{Server: pubsubfake.New()}
	var err error
	// Over TCP, so that a client finds the server again after its restart.
	if s.host, err = s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	h.of[t] = s
	t.Cleanup(func() {
		delete(h.of, t)
		s.Close()
	})
	return s
}

func (h *fakeHarness) NewDestination(t *testing.T, o conformance.DestinationOptions) conformance.Destination {
	t.Helper()
	s := h.server(t)
	h.places++
	d := &fakePlace{place: newPlace(s.host, h.places), srv: s}
	if err := s.AddTopic(d.topic); err != nil {
		t.Fatal(err)
	}
	err := s.AddSubscription(d.sub, d.topic, func(sub *pubsubpb.Subscription) {
		sub.AckDeadlineSeconds = int32(lease / time.Second)
		sub.EnableMessageOrdering = o.Ordered
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type fakePlace struct {
	place
	srv *fakeServer
}

func (d *fakePlace) Publish(_ context.Context, msgs ...conformance.Message) error {
	out := make([]*pubsubpb.PubsubMessage, len(msgs))
	for i, m := range msgs {
		out[i] = toService(m)
	}
	_, err := d.srv.PublishAt(d.topic, time.Now(), out...)
	return err
}

// Stored does not wait: what was published is there when its outcome is.
func (d *fakePlace) Stored(context.Context, int) ([]conformance.Message, error) {
	var msgs []conformance.Message
	for _, m := range d.srv.Published(d.topic) {
		msgs = append(msgs, fromService(m))
	}
	return msgs, nil
}

func (d *fakePlace) Unacknowledged(context.Context) (int, error) {
	return int(d.srv.Stats(d.sub).Unacked), nil
}

func (d *fakePlace) Counts() (unacknowledged, peakHandedOut int) {
	s := d.srv.Stats(d.sub)
	return int(s.Unacked), int(s.PeakOutstanding)
}

func (d *fakePlace) DropConnections() { d.srv.DropConnections() }

func (d *fakePlace) RestartBroker(context.Context) error {
	d.srv.Stop()
	_, err := d.srv.Start(d.srv.host)
	return err
}

func (d *fakePlace) Slow(delay time.Duration) (end func()) {
	return d.srv.Inject(pubsubfake.Fault{Delay: delay}).Remove
}

func (d *fakePlace) Redeliver() int {
	return d.srv.Redeliver(d.sub, func(*pubsubpb.PubsubMessage) bool { return true })
}

func (d *fakePlace) WriteRequests() []int {
	var sizes []int
	for _, r := range d.srv.TopicStats(d.topic).RequestLog {
		sizes = append(sizes, r.Messages)
	}
	return sizes
}

func (d *fakePlace) Connections() (peak, allowed int) { return d.srv.Connections().Peak, 2 }
