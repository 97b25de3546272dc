package pubsubfake_test

import (
	"bytes"
	"context"
	"testing"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const benchSize = 1024

// benchClients are real clients over loopback TCP.
func benchClients(b *testing.B) (*pubsubfake.Server, *pubsub.TopicAdminClient, *pubsub.SubscriptionAdminClient) {
	b.Helper()
	srv := pubsubfake.New(pubsubfake.WithoutHistory())
	b.Cleanup(srv.Close)
	addr, err := srv.Start("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(8<<20), grpc.WithInitialConnWindowSize(8<<20),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ctx := context.Background()
	pub, err := pubsub.NewTopicAdminClient(ctx, option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	sub, err := pubsub.NewSubscriptionAdminClient(ctx, option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	if err := srv.AddTopic(topicA); err != nil {
		b.Fatal(err)
	}
	if err := srv.AddSubscription(subA, topicA); err != nil {
		b.Fatal(err)
	}
	return srv, pub, sub
}

// BenchmarkRawRead reads 1 KiB messages from one stream and acknowledges them
// in batches over a second goroutine. One operation is one message.
func BenchmarkRawRead(b *testing.B) {
	srv, _, sub := benchClients(b)
	if err := srv.Load(topicA, b.N, benchSize); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchSize)
	b.ReportAllocs()
	b.ResetTimer()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := sub.StreamingPull(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if err := st.Send(&pubsubpb.StreamingPullRequest{Subscription: subA, StreamAckDeadlineSeconds: 60}); err != nil {
		b.Fatal(err)
	}
	acks := make(chan []string, 8)
	var g errgroup.Group
	g.Go(func() error {
		for batch := range acks {
			if err := sub.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: subA, AckIds: batch}); err != nil {
				return err
			}
		}
		return nil
	})
	for n := 0; n < b.N; {
		resp, err := st.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if msgs := resp.GetReceivedMessages(); len(msgs) > 0 {
			n += len(msgs)
			acks <- ids(msgs)
		}
	}
	close(acks)
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if st := srv.Stats(subA); st.Acked != int64(b.N) || st.Unacked != 0 {
		b.Fatalf("acked %d of %d, unacked %d", st.Acked, b.N, st.Unacked)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkRawPublish publishes 1 KiB messages in requests of 1000, four at a
// time. One operation is one message.
func BenchmarkRawPublish(b *testing.B) {
	srv, pub, _ := benchClients(b)
	if _, err := srv.DeleteSubscription(context.Background(), &pubsubpb.DeleteSubscriptionRequest{Subscription: subA}); err != nil {
		b.Fatal(err)
	}
	msgs := make([]*pubsubpb.PubsubMessage, 1000)
	body := bytes.Repeat([]byte("x"), benchSize)
	for i := range msgs {
		msgs[i] = &pubsubpb.PubsubMessage{Data: body}
	}
	b.SetBytes(benchSize)
	b.ReportAllocs()
	b.ResetTimer()
	var g errgroup.Group
	g.SetLimit(4)
	for n := 0; n < b.N; n += len(msgs) {
		batch := msgs[:min(len(msgs), b.N-n)]
		g.Go(func() error {
			_, err := pub.Publish(context.Background(), &pubsubpb.PublishRequest{Topic: topicA, Messages: batch})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if got := srv.TopicStats(topicA).Messages; got != int64(b.N) {
		b.Fatalf("%d stored", got)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
