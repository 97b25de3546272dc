//go:build integration

package pubsubfake_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
	"github.com/beam-brokers/beam-brokers/testing/realbrokers"
)

var showOutcomes = flag.Bool("outcomes", false, "print what each behaviour gave on both servers")

// A behaviour is something that a client can see. run describes what it saw in
// a form that is the same on each run; fake is what the fake must give, and
// emulator what the emulator gives where it differs. Each difference has its
// reason in the README.
type behaviour struct {
	name     string
	run      func(v *visitor) string
	fake     string
	emulator string
}

// A visitor is the clients of one behaviour on one server, with names of its
// own, so that behaviours run at the same time.
type visitor struct {
	*testing.T
	ctx     context.Context
	pub     *pubsub.TopicAdminClient
	sub     *pubsub.SubscriptionAdminClient
	sch     *pubsub.SchemaClient
	project string
	topic   string
	name    string // of the subscription
}

func TestFakeAndEmulatorBehaveAlike(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	t.Cleanup(cancel) // not deferred: the parallel tests below come after this function
	host, stop, err := realbrokers.PubSubEmulator(ctx)
	if errors.Is(err, realbrokers.ErrNotInstalled) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(stop)
	srv := pubsubfake.New()
	t.Cleanup(srv.Close)
	addr, err := srv.Start("127.0.0.1:0")
	must(t, err)
	for i, b := range behaviours {
		for _, server := range []struct{ name, host, want string }{
			{"fake", addr, b.fake}, {"emulator", host, b.emulatorOutcome()},
		} {
			t.Run(b.name+"/"+server.name, func(t *testing.T) {
				t.Parallel()
				got := b.run(visit(t, server.host, i))
				if *showOutcomes {
					fmt.Printf("%-40s %-9s %s\n", b.name, server.name, got)
				}
				if got != server.want {
					t.Errorf("got  %s\nwant %s", got, server.want)
				}
			})
		}
	}
}

func (b *behaviour) emulatorOutcome() string {
	if b.emulator != "" {
		return b.emulator
	}
	return b.fake
}

func visit(t *testing.T, host string, n int) *visitor {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	conn, err := grpc.NewClient(host, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	o := option.WithGRPCConn(conn)
	v := &visitor{T: t, ctx: ctx, project: fmt.Sprintf("projects/compare-%03d", n)}
	v.topic, v.name = v.project+"/topics/topic-a", v.project+"/subscriptions/sub-a"
	v.pub, err = pubsub.NewTopicAdminClient(ctx, o)
	must(t, err)
	v.sub, err = pubsub.NewSubscriptionAdminClient(ctx, o)
	must(t, err)
	v.sch, err = pubsub.NewSchemaClient(ctx, o)
	must(t, err)
	return v
}

// set makes the topic and a subscription to it.
func (v *visitor) set(settings ...func(*pubsubpb.Subscription)) *visitor {
	v.Helper()
	_, err := v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: v.topic})
	must(v.T, err)
	pb := &pubsubpb.Subscription{Name: v.name, Topic: v.topic}
	for _, f := range settings {
		f(pb)
	}
	_, err = v.sub.CreateSubscription(v.ctx, pb)
	must(v.T, err)
	return v
}

func (v *visitor) send(msgs ...*pubsubpb.PubsubMessage) {
	v.Helper()
	must(v.T, v.trySend(msgs...))
}

// trySend does not retry: over-sized requests would be repeated for a minute.
func (v *visitor) trySend(msgs ...*pubsubpb.PubsubMessage) error {
	_, err := pubsubpb.NewPublisherClient(v.pub.Connection()).Publish(v.ctx, &pubsubpb.PublishRequest{Topic: v.topic, Messages: msgs}) //nolint:staticcheck // the only way to its connection
	return err
}

// take pulls until n messages have come or for about a second.
func (v *visitor) take(n int) []*pubsubpb.ReceivedMessage {
	v.Helper()
	return v.takeFor(n, 1500*time.Millisecond)
}

func (v *visitor) takeFor(n int, d time.Duration) []*pubsubpb.ReceivedMessage {
	v.Helper()
	var msgs []*pubsubpb.ReceivedMessage
	for end := time.Now().Add(d); len(msgs) < n && time.Now().Before(end); {
		resp, err := v.sub.Pull(v.ctx, &pubsubpb.PullRequest{Subscription: v.name, MaxMessages: int32(n - len(msgs)), ReturnImmediately: true})
		must(v.T, err)
		msgs = append(msgs, resp.GetReceivedMessages()...)
		if len(resp.GetReceivedMessages()) == 0 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return msgs
}

func (v *visitor) ack(ids ...string) error {
	return v.sub.Acknowledge(v.ctx, &pubsubpb.AcknowledgeRequest{Subscription: v.name, AckIds: ids})
}

func (v *visitor) modAck(seconds int32, ids ...string) error {
	return v.sub.ModifyAckDeadline(v.ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: v.name, AckIds: ids, AckDeadlineSeconds: seconds})
}

func (v *visitor) stream(first *pubsubpb.StreamingPullRequest) pubsubpb.Subscriber_StreamingPullClient {
	v.Helper()
	first.Subscription = v.name
	if first.StreamAckDeadlineSeconds == 0 {
		first.StreamAckDeadlineSeconds = 10
	}
	st, err := v.sub.StreamingPull(v.ctx)
	must(v.T, err)
	must(v.T, st.Send(first))
	return st
}

// listen collects responses in the background for a while.
func listen(st pubsubpb.Subscriber_StreamingPullClient, d time.Duration) (resps []*pubsubpb.StreamingPullResponse, err error) {
	type answer struct {
		resp *pubsubpb.StreamingPullResponse
		err  error
	}
	answers := make(chan answer)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			resp, err := st.Recv()
			select {
			case answers <- answer{resp, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return resps, a.err
			}
			resps = append(resps, a.resp)
		case <-t.C:
			return resps, nil
		}
	}
}

func received(resps []*pubsubpb.StreamingPullResponse) (msgs []*pubsubpb.ReceivedMessage) {
	for _, r := range resps {
		msgs = append(msgs, r.GetReceivedMessages()...)
	}
	return msgs
}

func code(err error) string { return status.Code(err).String() }

func body(msgs []*pubsubpb.ReceivedMessage) string { return strings.Join(bodies(msgs), "") }

// about names the span that a duration lies in.
func about(d time.Duration, low, high time.Duration) string {
	switch {
	case d < low:
		return "too early"
	case d > high:
		return "too late"
	}
	return "in time"
}

// failedIDs describes an exactly-once error without the ids.
func failedIDs(err error) string {
	api, ok := apierror.FromError(err)
	if !ok || err == nil {
		return code(err)
	}
	reasons := slices.Sorted(maps.Values(api.Metadata()))
	return code(err) + " " + api.Reason() + " " + strings.Join(reasons, ",")
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
