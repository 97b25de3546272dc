// Package pubsubsim lets testing/simrunner drive pubsubio.Read, with the real
// client, over pubsubfake.
package pubsubsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/pubsubio"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
	"github.com/beam-brokers/beam-brokers/testing/simrunner"
)

const (
	topicName = "projects/p/topics/t-in"
	subName   = "projects/p/subscriptions/s-in"
	// CommitTimeout has room for two checkpoints that are late.
	CommitTimeout = 2 * time.Minute
)

// A Broker is a pubsubfake with connections of its own for each worker.
type Broker struct {
	srv  *pubsubfake.Server
	host string // in the DoFn, replaced for each worker

	mu      sync.Mutex
	workers map[string]*link
	remove  []func()
}

// A link is the connections of one worker.
type link struct {
	host  string
	dead  bool
	conns []*grpc.ClientConn
}

// New makes a broker with one subscription. It must be called in the bubble.
func New() (*Broker, error) {
	b := &Broker{srv: pubsubfake.New(pubsubfake.WithoutHistory()), workers: map[string]*link{}}
	b.host = b.register(func(...grpc.DialOption) (*grpc.ClientConn, error) {
		return nil, errors.New("no worker uses the host of the pipeline")
	})
	if err := b.srv.AddTopic(topicName); err != nil {
		return nil, err
	}
	return b, b.srv.AddSubscription(subName, topicName)
}

func (b *Broker) register(d inmemory.Dialer) string {
	host, remove := inmemory.Register(d)
	b.remove = append(b.remove, remove)
	return host
}

// Close ends the server, after waiting for the process to let go of everything
// that belongs to the run: readers, idle clients, bundles without a commit. It
// tells what was left.
func (b *Broker) Close(ctx context.Context) error {
	if err := queue.WaitClosed(ctx); err != nil {
		return fmt.Errorf("waiting for the readers: %w", err)
	}
	time.Sleep(CommitTimeout)
	var err error
	if n := b.srv.Connections().Open; n > 0 {
		err = fmt.Errorf("%d connections are open after the run", n)
	}
	b.srv.Close()
	for _, f := range b.remove {
		f()
	}
	return err
}

// Publish implements simrunner.Broker.
func (b *Broker) Publish(n int) ([]string, error) {
	msgs := make([]*pubsubpb.PubsubMessage, n)
	body := []byte("0123456789abcdef")
	for i := range msgs {
		msgs[i] = &pubsubpb.PubsubMessage{Data: body}
	}
	return b.srv.PublishAt(topicName, time.Now(), msgs...)
}

// Watch implements simrunner.Broker.
func (b *Broker) Watch(f func(simrunner.Event)) {
	if f == nil {
		b.srv.OnEvent(nil)
		return
	}
	kinds := map[pubsubfake.EventKind]simrunner.EventKind{
		pubsubfake.EventDelivered: simrunner.Delivered,
		pubsubfake.EventAcked:     simrunner.Acked,
		pubsubfake.EventNacked:    simrunner.Returned,
		pubsubfake.EventExpired:   simrunner.Lapsed,
		pubsubfake.EventRevoked:   simrunner.Lapsed,
	}
	b.srv.OnEvent(func(e pubsubfake.Event) {
		if k, ok := kinds[e.Kind]; ok {
			f(simrunner.Event{Kind: k, ID: e.Message.GetMessageId(), Delivery: e.AckID})
		}
	})
}

// Dial implements simrunner.Broker.
func (b *Broker) Dial(worker string, dofn []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.workers[worker]
	if w == nil {
		w = &link{}
		w.host = b.register(func(opts ...grpc.DialOption) (*grpc.ClientConn, error) { return b.connect(w, opts) })
		b.workers[worker] = w
	}
	return bytes.ReplaceAll(dofn, []byte(`"`+b.host+`"`), []byte(`"`+w.host+`"`))
}

func (b *Broker) connect(w *link, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.dead {
		return nil, errors.New("the worker is dead")
	}
	c, err := b.srv.Dial(context.Background(), opts...)
	if err == nil {
		w.conns = append(w.conns, c)
	}
	return c, err
}

// Cut implements simrunner.Broker.
func (b *Broker) Cut(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.workers[worker]
	if w == nil {
		return
	}
	w.dead = true
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// Unsettled implements simrunner.Broker.
func (b *Broker) Unsettled() int { return int(b.srv.Stats(subName).Unacked) }

// Faults implements simrunner.Broker.
func (b *Broker) Faults() []simrunner.BrokerFault {
	inject := func(name string, f pubsubfake.Fault) simrunner.BrokerFault {
		return simrunner.BrokerFault{Name: name, Strike: func(*rand.Rand) func() { return b.srv.Inject(f).Remove }}
	}
	return []simrunner.BrokerFault{
		inject("ack refused", pubsubfake.Fault{Method: "Acknowledge", Code: codes.Unavailable}),
		inject("ack answer lost", pubsubfake.Fault{Method: "Acknowledge", LoseAnswer: true}),
		inject("ack delayed", pubsubfake.Fault{Method: "Acknowledge", Delay: 3 * time.Second}),
		inject("renewal refused", pubsubfake.Fault{Method: "ModifyAckDeadline", Code: codes.Internal}),
		inject("stream refused", pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unavailable}),
		{Name: "streams close", Strike: func(*rand.Rand) func() {
			b.srv.CloseStreams(subName, codes.Unavailable, "injected")
			return nil
		}},
		{Name: "streams fall silent", Strike: func(*rand.Rand) func() {
			b.srv.MuteStreams(subName, true)
			return func() { b.srv.MuteStreams(subName, false) }
		}},
		{Name: "leases end", Strike: func(*rand.Rand) func() { b.srv.ExpireAll(subName); return nil }},
		{Name: "delivered twice", Strike: func(rng *rand.Rand) func() {
			b.srv.DuplicateEvery(subName, 2+rng.IntN(10))
			return func() { b.srv.DuplicateEvery(subName, 0) }
		}},
		{Name: "redelivered", Strike: func(rng *rand.Rand) func() {
			b.srv.Redeliver(subName, func(*pubsubpb.PubsubMessage) bool { return rng.IntN(4) == 0 })
			return nil
		}},
	}
}

// Config is a run of pubsubio.Read with every fault on.
func (b *Broker) Config(mode simrunner.Mode, seed uint64, messages int) simrunner.Config {
	return simrunner.Config{
		Mode: mode, Seed: seed, Broker: b, Messages: messages,
		Source: func(s beam.Scope) beam.PCollection {
			return pubsubio.Read(s, pubsubio.Connection{ProjectID: "p", EmulatorHost: b.host}, subName,
				pubsubio.Runner(string(mode)), pubsubio.AckDeadline(10*time.Second), pubsubio.MaxWorkers(1+int(seed%3)),
				pubsubio.CommitTimeout(CommitTimeout), pubsubio.MaxOutstandingMessages(max(messages/5, 100)),
			).Messages
		},
		ID: func(_ int, v any) string {
			switch m := v.(type) {
			case pubsubio.Message:
				return m.MessageID
			case pubsubio.FailedMessage:
				return m.Message.MessageID
			}
			return ""
		},
		CommitTimeout: CommitTimeout,
		Faults:        simrunner.AllFaults(mode),
		BrokerFaults:  3,
	}
}
