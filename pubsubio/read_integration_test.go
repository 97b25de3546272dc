//go:build integration

package pubsubio

import (
	"fmt"
	"testing"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/testing/realbrokers"
)

// The official emulator ignores flow control, and knows no keep-alives: it has
// to be read with Pull within the bound, and an idle stream has to be believed.
func TestReadFromTheOfficialEmulator(t *testing.T) {
	host, stop, err := realbrokers.PubSubEmulator(t.Context())
	if err != nil {
		t.Skip(err)
	}
	defer stop()
	activateHooks()
	r := &readRig{T: t, worker: "worker-emulator", conn: Connection{ProjectID: testProject, EmulatorHost: host}}
	opts, err := r.conn.clientOptions()
	if err != nil {
		t.Fatal(err)
	}
	topics, err := vkit.NewTopicAdminClient(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	subs, err := vkit.NewSubscriptionAdminClient(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer subs.Close()
	if _, err := topics.CreateTopic(t.Context(), &pubsubpb.Topic{Name: testTopic}); err != nil {
		t.Fatal(err)
	}
	if _, err := subs.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: testSub, Topic: testTopic, AckDeadlineSeconds: 10}); err != nil {
		t.Fatal(err)
	}
	publish := func(from, n int) {
		for i := from; i < from+n; {
			req := &pubsubpb.PublishRequest{Topic: testTopic}
			for ; i < from+n && len(req.Messages) < 1000; i++ {
				req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: fmt.Appendf(nil, "id-%06d", i)})
			}
			if _, err := topics.Publish(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(n int, within time.Duration) (got []Message) {
		for end := time.Now().Add(within); len(got) < n && time.Now().Before(end); {
			b := r.call().commit()
			if b.err != nil {
				t.Fatal(b.err)
			}
			got = append(got, b.got...)
			b.pause()
		}
		return got
	}
	r.source(MaxOutstandingMessages(500), StallTimeout(5*time.Second))
	read(1, 20*time.Second) // idle
	if n := r.reader().Stats().Reconnects.Load(); n != 0 {
		t.Errorf("an idle stream was reopened %d times", n)
	}
	publish(0, 5000)
	got := read(5000, 60*time.Second)
	publish(5000, 5000)
	got = append(got, read(5000, 60*time.Second)...)
	// Nothing is committed for a while: the emulator sends on, whatever the bound.
	publish(10000, 3000)
	var open []*readBundle
	for end := time.Now().Add(20 * time.Second); !r.reader().inlet.isPulling() && time.Now().Before(end); {
		b := r.call().ends(true)
		open = append(open, b)
		got = append(got, b.got...)
		b.pause()
	}
	if !r.reader().inlet.isPulling() {
		t.Error("the stream goes on, beyond the bound")
	}
	for _, b := range open {
		b.finalize()
	}
	got = append(got, read(13000-len(got), 60*time.Second)...)
	r.checkAll(got, 13000)
	time.Sleep(500 * time.Millisecond)
	st := r.reader().Stats()
	t.Logf("received %d, redelivered %d, acked %d, reconnects %d, lease expired %d, pulling %v, answers %v", st.Received.Load(), st.Redelivered.Load(),
		st.Acked.Load(), st.Reconnects.Load(), st.LeaseExpired.Load(), r.reader().inlet.isPulling(), r.reader().inlet.answers)
	if st.Acked.Load() != 13000 || st.LeaseExpired.Load() != 0 {
		t.Errorf("acked %d, leases expired %d", st.Acked.Load(), st.LeaseExpired.Load())
	}
	began := time.Now()
	if err := queue.CloseAll(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(began))
	subscribers.CloseIdle()
	time.Sleep(11 * time.Second) // whatever was leased unseen comes back
	ctx := deadline(t, 3*time.Second)
	resp, err := subs.Pull(ctx, &pubsubpb.PullRequest{Subscription: testSub, MaxMessages: 100})
	if err == nil && len(resp.ReceivedMessages) > 0 {
		t.Errorf("%d messages are left", len(resp.ReceivedMessages))
	}
}
