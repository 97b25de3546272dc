package pubsubfake_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// The high-level client, whose settings are the defaults of most programs. Its
// keep-alive goroutine outlives Receive, so this cannot run in a bubble.
func TestHighLevelClient(t *testing.T) {
	srv := pubsubfake.New()
	defer srv.Close()
	addr, err := srv.Start("127.0.0.1:0")
	must(t, err)
	t.Setenv("PUBSUB_EMULATOR_HOST", addr)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := pubsub.NewClient(ctx, "fake-project")
	must(t, err)
	defer client.Close()
	must(t, srv.AddTopic(topicA))
	must(t, srv.AddSubscription(subA, topicA))
	const n = 2000
	p := client.Publisher("topic-a")
	for i := range n {
		p.Publish(ctx, &pubsub.Message{Data: fmt.Append(nil, i)})
	}
	p.Stop()
	if st := srv.TopicStats(topicA); st.Messages != n || st.Requests > n/20 {
		t.Fatalf("%d messages in %d requests", st.Messages, st.Requests)
	}
	var seen sync.Map
	var count atomic.Int64
	rctx, stop := context.WithCancel(ctx)
	defer stop()
	err = client.Subscriber("sub-a").Receive(rctx, func(_ context.Context, m *pubsub.Message) {
		m.Ack()
		if _, again := seen.LoadOrStore(string(m.Data), true); !again && count.Add(1) == n {
			stop()
		}
	})
	must(t, err)
	st := srv.Stats(subA)
	if st.Delivered != n || st.Acked != n || st.Expired != 0 || st.StreamsOpened != 1 {
		t.Fatalf("%d seen, %+v", count.Load(), st)
	}
}
