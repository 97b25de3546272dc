// Package rawpubsub speaks to a Pub/Sub emulator through the plain client,
// without Beam and without pubsubio: what demos and checks fill and count
// subscriptions with, and what benchmarks are compared with.
package rawpubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// A Client is one connection to an emulator.
type Client struct {
	Topics        *vkit.TopicAdminClient
	Subscriptions *vkit.SubscriptionAdminClient
	conn          *grpc.ClientConn
}

// Dial connects to the emulator at host:port.
func Dial(ctx context.Context, address string) (*Client, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithInitialWindowSize(8<<20), grpc.WithInitialConnWindowSize(8<<20))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	opts := []option.ClientOption{option.WithGRPCConn(conn), option.WithTelemetryDisabled()}
	topics, err := vkit.NewTopicAdminClient(ctx, opts...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of %s: %w", address, err), conn.Close())
	}
	subscriptions, err := vkit.NewSubscriptionAdminClient(ctx, opts...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of %s: %w", address, err), conn.Close())
	}
	return &Client{topics, subscriptions, conn}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Create makes a topic and a subscription to it, by full names. An existing
// topic is left as it is.
func (c *Client) Create(ctx context.Context, topic, subscription string, ackDeadline time.Duration, settings ...func(*pubsubpb.Subscription)) error {
	if _, err := c.Topics.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("creating %s: %w", topic, err)
	}
	sub := &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: int32(ackDeadline / time.Second)}
	for _, f := range settings {
		f(sub)
	}
	if _, err := c.Subscriptions.CreateSubscription(ctx, sub); err != nil {
		return fmt.Errorf("creating %s: %w", subscription, err)
	}
	return nil
}

// The bounds of one publish request of Publish.
const (
	requestMessages = 1000
	requestBytes    = 4 << 20
)

// Publish publishes the messages 0 to n-1 made by f, in order, one request
// after another. A message that f leaves nil is left out. A request holds
// messages of one ordering key only.
func (c *Client) Publish(ctx context.Context, topic string, n int, f func(i int) *pubsubpb.PubsubMessage) error {
	req := &pubsubpb.PublishRequest{Topic: topic}
	size := 0
	send := func() error {
		if len(req.Messages) == 0 {
			return nil
		}
		if _, err := c.Topics.Publish(ctx, req); err != nil {
			return fmt.Errorf("publishing to %s: %w", topic, err)
		}
		req.Messages, size = nil, 0
		return nil
	}
	for i := range n {
		m := f(i)
		if m == nil {
			continue
		}
		full := len(req.Messages) == requestMessages || size+len(m.Data) > requestBytes
		if full || len(req.Messages) > 0 && req.Messages[0].OrderingKey != m.OrderingKey {
			if err := send(); err != nil {
				return err
			}
		}
		req.Messages = append(req.Messages, m)
		size += len(m.Data) + 100
	}
	return send()
}

// Receive hands every message of the subscription to f and acknowledges it,
// until ctx ends, which is no error. f is called by one goroutine.
func (c *Client) Receive(ctx context.Context, subscription string, f func(*pubsubpb.ReceivedMessage)) error {
	stream, err := c.Subscriptions.StreamingPull(ctx)
	if err != nil {
		return fmt.Errorf("opening a stream on %s: %w", subscription, err)
	}
	first := &pubsubpb.StreamingPullRequest{Subscription: subscription, StreamAckDeadlineSeconds: 60}
	if err := stream.Send(first); err != nil {
		return fmt.Errorf("opening a stream on %s: %w", subscription, err)
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("receiving from %s: %w", subscription, err)
		}
		ids := make([]string, len(resp.ReceivedMessages))
		for i, m := range resp.ReceivedMessages {
			ids[i] = m.AckId
			f(m)
		}
		if len(ids) == 0 {
			continue // a keep-alive
		}
		if err := c.Subscriptions.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: subscription, AckIds: ids}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("acknowledging to %s: %w", subscription, err)
		}
	}
}

// Drain hands what is in the subscription to f, acknowledging it, until nothing
// has come for as long as idle says.
func (c *Client) Drain(ctx context.Context, subscription string, idle time.Duration, f func(*pubsubpb.ReceivedMessage)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(idle, cancel)
	defer quiet.Stop()
	return c.Receive(ctx, subscription, func(m *pubsubpb.ReceivedMessage) {
		quiet.Reset(idle)
		f(m)
	})
}
