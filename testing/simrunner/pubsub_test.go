package simrunner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
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
	pubsubTopic = "projects/p/topics/t-in"
	pubsubSub   = "projects/p/subscriptions/s-in"
	// pubsubCommitTimeout has room for two checkpoints that are late.
	pubsubCommitTimeout = 2 * time.Minute
)

// A pubsubBroker is a pubsubfake with connections of its own for each worker.
type pubsubBroker struct {
	srv  *pubsubfake.Server
	host string // in the DoFn, replaced for each worker

	mu      sync.Mutex
	workers map[string]*pubsubWorker
	remove  []func()
}

type pubsubWorker struct {
	host  string
	dead  bool
	conns []*grpc.ClientConn
}

func newPubsubBroker() (*pubsubBroker, error) {
	b := &pubsubBroker{srv: pubsubfake.New(pubsubfake.WithoutHistory()), workers: map[string]*pubsubWorker{}}
	b.host = b.register(func(...grpc.DialOption) (*grpc.ClientConn, error) {
		return nil, errors.New("no worker uses the host of the pipeline")
	})
	if err := b.srv.AddTopic(pubsubTopic); err != nil {
		return nil, err
	}
	return b, b.srv.AddSubscription(pubsubSub, pubsubTopic)
}

func (b *pubsubBroker) register(d inmemory.Dialer) string {
	host, remove := inmemory.Register(d)
	b.remove = append(b.remove, remove)
	return host
}

func (b *pubsubBroker) close() {
	b.srv.Close()
	for _, f := range b.remove {
		f()
	}
}

func (b *pubsubBroker) Publish(n int) ([]string, error) {
	msgs := make([]*pubsubpb.PubsubMessage, n)
	body := []byte("0123456789abcdef")
	for i := range msgs {
		msgs[i] = &pubsubpb.PubsubMessage{Data: body}
	}
	return b.srv.PublishAt(pubsubTopic, time.Now(), msgs...)
}

func (b *pubsubBroker) Watch(f func(simrunner.Event)) {
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

func (b *pubsubBroker) Dial(worker string, dofn []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.workers[worker]
	if w == nil {
		w = &pubsubWorker{}
		w.host = b.register(func(opts ...grpc.DialOption) (*grpc.ClientConn, error) { return b.connect(w, opts) })
		b.workers[worker] = w
	}
	return bytes.ReplaceAll(dofn, []byte(`"`+b.host+`"`), []byte(`"`+w.host+`"`))
}

func (b *pubsubBroker) connect(w *pubsubWorker, opts []grpc.DialOption) (*grpc.ClientConn, error) {
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

func (b *pubsubBroker) Cut(worker string) {
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

func (b *pubsubBroker) Unsettled() int { return int(b.srv.Stats(pubsubSub).Unacked) }

func (b *pubsubBroker) Faults() []simrunner.BrokerFault {
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
			b.srv.CloseStreams(pubsubSub, codes.Unavailable, "injected")
			return nil
		}},
		{Name: "streams fall silent", Strike: func(*rand.Rand) func() {
			b.srv.MuteStreams(pubsubSub, true)
			return func() { b.srv.MuteStreams(pubsubSub, false) }
		}},
		{Name: "leases end", Strike: func(*rand.Rand) func() { b.srv.ExpireAll(pubsubSub); return nil }},
		{Name: "delivered twice", Strike: func(rng *rand.Rand) func() {
			b.srv.DuplicateEvery(pubsubSub, 2+rng.IntN(10))
			return func() { b.srv.DuplicateEvery(pubsubSub, 0) }
		}},
		{Name: "redelivered", Strike: func(rng *rand.Rand) func() {
			b.srv.Redeliver(pubsubSub, func(*pubsubpb.PubsubMessage) bool { return rng.IntN(4) == 0 })
			return nil
		}},
	}
}

func pubsubConfig(b *pubsubBroker, mode simrunner.Mode, seed uint64, messages int) simrunner.Config {
	return simrunner.Config{
		Mode: mode, Seed: seed, Broker: b, Messages: messages,
		Source: func(s beam.Scope) beam.PCollection {
			return pubsubio.Read(s, pubsubio.Connection{ProjectID: "p", EmulatorHost: b.host}, pubsubSub,
				pubsubio.Runner(string(mode)), pubsubio.AckDeadline(10*time.Second), pubsubio.MaxWorkers(1+int(seed%3)),
				pubsubio.CommitTimeout(pubsubCommitTimeout), pubsubio.MaxOutstandingMessages(max(messages/5, 100)),
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
		CommitTimeout: pubsubCommitTimeout,
		Faults:        simrunner.AllFaults(mode),
		BrokerFaults:  3,
	}
}

// runPubsub makes one run and leaves nothing behind.
func runPubsub(t *testing.T, mode simrunner.Mode, seed uint64, messages int) *simrunner.Result {
	t.Helper()
	// Each run begins at the same place within the hour, so that all are alike.
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
	b, err := newPubsubBroker()
	if err != nil {
		t.Fatal(err)
	}
	r, err := simrunner.Run(t.Context(), pubsubConfig(b, mode, seed, messages))
	if err != nil {
		t.Fatal(err)
	}
	if err := queue.WaitClosed(context.Background()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pubsubCommitTimeout) // idle clients close, the commit table empties
	if n := b.srv.Connections().Open; n > 0 {
		t.Errorf("%s, seed %d: %d connections are open after the run", mode, seed, n)
	}
	b.close()
	return r
}

// TestPubsub drives pubsubio.Read, with the real client, over pubsubfake. All
// runs share one bubble: so does the process's pool of clients.
func TestPubsub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range modes {
			if *only == "" || *only == string(mode) {
				runPubsubSeeds(t, mode)
			}
		}
	})
}

func runPubsubSeeds(t *testing.T, mode simrunner.Mode) {
	began, sum := realTime(), tally{faults: map[string]int{}}
	for seed := *first; seed < *first+*seeds; seed++ {
		r := runPubsub(t, mode, seed, *messages)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		sum.add(r)
	}
	sum.faultsOf(mode)
	fmt.Printf("simrunner: pubsubio on %s, seeds %d-%d of %d messages, %v of CPU: %s\n",
		mode, *first, *first+*seeds-1, *messages, (realTime() - began).Round(time.Second), sum.String())
	if name, n := sum.rarest(); *atLeast > n {
		t.Errorf("%s: %q struck %d times, wanted %d", mode, name, n, *atLeast)
	}
}

// realTime is the processor time used so far: inside a bubble the clock is not
// the real one.
func realTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A tally adds up runs.
type tally struct {
	published, durable, duplicates, lateAgain, bundles, bad int
	longest                                                 time.Duration
	faults                                                  map[string]int
}

func (s *tally) add(r *simrunner.Result) {
	s.published += r.Published
	s.durable += r.Durable
	s.duplicates += r.Duplicates
	s.lateAgain += r.LateAgain
	s.bundles += r.Bundles
	s.longest = max(s.longest, r.LongestHeld)
	if len(r.Problems) > 0 {
		s.bad++
	}
	for f, n := range r.Faults {
		s.faults[f] += n
	}
}

// faultsOf makes those that never struck show.
func (s *tally) faultsOf(mode simrunner.Mode) {
	for _, f := range simrunner.Faults(mode) {
		s.faults[string(f)] += 0
	}
	b := &pubsubBroker{}
	for _, f := range b.Faults() {
		s.faults[f.Name] += 0
	}
}

func (s *tally) rarest() (name string, n int) {
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		if name == "" || s.faults[f] < n {
			name, n = f, s.faults[f]
		}
	}
	return name, n
}

func (s *tally) String() string {
	var faults []string
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		faults = append(faults, fmt.Sprintf("%s=%d", f, s.faults[f]))
	}
	return fmt.Sprintf("published=%d missing=%d duplicates=%d late_redeliveries=%d bundles=%d held_at_most=%v bad_seeds=%d; faults: %s",
		s.published, s.published-s.durable, s.duplicates, s.lateAgain, s.bundles, s.longest.Round(time.Second), s.bad, strings.Join(faults, ", "))
}
