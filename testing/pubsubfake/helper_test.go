package pubsubfake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const (
	project = "projects/fake-project"
	topicA  = project + "/topics/topic-a"
	topicB  = project + "/topics/topic-b"
	subA    = project + "/subscriptions/sub-a"
	subB    = project + "/subscriptions/sub-b"
)

// A fixture is a server with topicA and subA, and the real clients to it.
type fixture struct {
	*testing.T
	srv *pubsubfake.Server
	ctx context.Context
	pub *pubsub.TopicAdminClient
	sub *pubsub.SubscriptionAdminClient
}

func setUp(t *testing.T, settings func(*pubsubpb.Subscription), opts ...pubsubfake.Option) *fixture {
	t.Helper()
	srv := pubsubfake.New(opts...)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	conn, err := srv.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, srv: srv, ctx: ctx}
	o := option.WithGRPCConn(conn)
	if f.pub, err = pubsub.NewTopicAdminClient(ctx, o); err != nil {
		t.Fatal(err)
	}
	if f.sub, err = pubsub.NewSubscriptionAdminClient(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := f.pub.CreateTopic(ctx, &pubsubpb.Topic{Name: topicA}); err != nil {
		t.Fatal(err)
	}
	pb := &pubsubpb.Subscription{Name: subA, Topic: topicA}
	if settings != nil {
		settings(pb)
	}
	if _, err := f.sub.CreateSubscription(ctx, pb); err != nil {
		t.Fatal(err)
	}
	return f
}

func text(s string) *pubsubpb.PubsubMessage { return &pubsubpb.PubsubMessage{Data: []byte(s)} }

func keyed(key, s string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte(s), OrderingKey: key}
}

func numbered(n int) []*pubsubpb.PubsubMessage {
	msgs := make([]*pubsubpb.PubsubMessage, n)
	for i := range msgs {
		msgs[i] = text(fmt.Sprint(i))
	}
	return msgs
}

func (f *fixture) publish(msgs ...*pubsubpb.PubsubMessage) []string {
	f.Helper()
	resp, err := f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: topicA, Messages: msgs})
	if err != nil {
		f.Fatal(err)
	}
	return resp.GetMessageIds()
}

// pull answers at once with what there is.
func (f *fixture) pull(name string, n int32) []*pubsubpb.ReceivedMessage {
	f.Helper()
	resp, err := f.sub.Pull(f.ctx, &pubsubpb.PullRequest{Subscription: name, MaxMessages: n, ReturnImmediately: true})
	if err != nil {
		f.Fatal(err)
	}
	return resp.GetReceivedMessages()
}

func (f *fixture) ack(name string, ids ...string) error {
	return f.sub.Acknowledge(f.ctx, &pubsubpb.AcknowledgeRequest{Subscription: name, AckIds: ids})
}

func (f *fixture) modAck(name string, seconds int32, ids ...string) error {
	return f.sub.ModifyAckDeadline(f.ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: name, AckIds: ids, AckDeadlineSeconds: seconds})
}

func (f *fixture) stream(first *pubsubpb.StreamingPullRequest) pubsubpb.Subscriber_StreamingPullClient {
	f.Helper()
	if first.Subscription == "" {
		first.Subscription = subA
	}
	if first.StreamAckDeadlineSeconds == 0 {
		first.StreamAckDeadlineSeconds = 10
	}
	st, err := f.sub.StreamingPull(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	if err := st.Send(first); err != nil {
		f.Fatal(err)
	}
	return st
}

// recv reads responses until n messages have come.
func (f *fixture) recv(st pubsubpb.Subscriber_StreamingPullClient, n int) []*pubsubpb.ReceivedMessage {
	f.Helper()
	var msgs []*pubsubpb.ReceivedMessage
	for len(msgs) < n {
		resp, err := st.Recv()
		if err != nil {
			f.Fatalf("after %d messages: %v", len(msgs), err)
		}
		msgs = append(msgs, resp.GetReceivedMessages()...)
	}
	return msgs
}

func (f *fixture) wantCode(err error, code codes.Code) {
	f.Helper()
	if got := status.Code(err); got != code {
		f.Fatalf("code is %v, want %v: %v", got, code, err)
	}
}

func ids(msgs []*pubsubpb.ReceivedMessage) []string {
	out := make([]string, len(msgs))
	for i, m := range msgs {
		out[i] = m.GetAckId()
	}
	return out
}

func bodies(msgs []*pubsubpb.ReceivedMessage) []string {
	out := make([]string, len(msgs))
	for i, m := range msgs {
		out[i] = string(m.GetMessage().GetData())
	}
	return out
}

const nearly = 10*time.Second - time.Millisecond
