package bridge

import (
	"context"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

const (
	fromTopic = "projects/bridge-project/topics/from"
	fromSub   = "projects/bridge-project/subscriptions/from-sub"
	toTopic   = "projects/bridge-project/topics/to-topic"
	deadTopic = "projects/bridge-project/topics/dead"
)

// fake is a server with a topic of n messages.
func fake(t *testing.T, n int) (*pubsubfake.Server, string) {
	t.Helper()
	srv := pubsubfake.New()
	t.Cleanup(srv.Close)
	addr, err := srv.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{fromTopic, toTopic, deadTopic} {
		if err := srv.AddTopic(topic); err != nil {
			t.Fatal(err)
		}
	}
	if err := srv.AddSubscription(fromSub, fromTopic); err != nil {
		t.Fatal(err)
	}
	err = srv.LoadFunc(fromTopic, n, func(i int) *pubsubpb.PubsubMessage {
		return &pubsubpb.PubsubMessage{
			Data: []byte("body " + strconv.Itoa(i)), OrderingKey: "key " + strconv.Itoa(i%3),
			Attributes: map[string]string{"n": strconv.Itoa(i), "color": "red"},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return srv, addr
}

func pubsubConfig(addr string, from, to map[string]string) Config {
	c := Config{
		From: Endpoint{"pubsub", map[string]string{"emulatorHost": addr, "subscription": fromSub}},
		To:   Endpoint{"pubsub", map[string]string{"emulatorHost": addr, "topic": toTopic}},
	}
	for k, v := range from {
		c.From.Options[k] = v
	}
	for k, v := range to {
		c.To.Options[k] = v
	}
	return c
}

// running is a bridge in the background.
type running struct {
	*Job
	t     *testing.T
	drain context.CancelFunc
	now   chan struct{}
	ended chan error
}

func start(t *testing.T, c Config) *running {
	t.Helper()
	j, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Job: j, t: t, drain: cancel, now: make(chan struct{}), ended: make(chan error, 1)}
	go func() { r.ended <- j.Run(ctx, r.now) }()
	return r
}

// until waits for a condition.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waiting for %s: %s", what, r.Status(r.t.Context()).line())
		}
	}
}

// wait is the error of the run's end.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatal("the bridge does not end")
		return nil
	}
}

// stop drains the bridge.
func (r *running) stop() error {
	r.t.Helper()
	r.drain()
	return r.wait()
}
