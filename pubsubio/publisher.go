package pubsubio

import (
	"context"
	"fmt"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/beam-brokers/beam-brokers/internal/batch"
	"github.com/beam-brokers/beam-brokers/internal/clients"
	"github.com/beam-brokers/beam-brokers/internal/publish"
	"github.com/googleapis/gax-go/v2"
	gapi "google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
)

const (
	// requestsPerClient bounds the publish calls in flight on a connection;
	// HTTP/2 servers commonly allow 100 streams.
	requestsPerClient = 64

	firstRetryWait = 100 * time.Millisecond
	lastRetryWait  = 5 * time.Second
	// leastAttempt is the shortest time limit of a single attempt, where
	// PublishTimeout leaves room for more than one.
	leastAttempt = 5 * time.Second
)

// An item is a message on its way to a publish request, and a chunk a batch of
// them.
type (
	item  = batch.Item[Message]
	chunk = batch.Chunk[Message]
)

// topicClients are the process's clients that publish.
var topicClients = clients.NewPool(clients.DefaultIdle, func(c *pubsub.TopicAdminClient) error { return c.Close() })

// A publisher is the broker's side of a Write: it turns a batch into one
// publish request. It is safe for use from many goroutines.
type publisher struct {
	conn        Connection
	config      *writeConfig
	credentials credentialsWatch
	callOptions []gax.CallOption
}

// newPublisher makes the way to the broker for one Write. hold separates the
// ordering keys that this Write holds back from those of others.
func newPublisher(conn Connection, c *writeConfig, hold string) *publish.Publisher[item, string] {
	p := &publisher{conn: conn, config: c}
	if c.Compression == CompressionGzip {
		p.callOptions = append(p.callOptions, gax.WithGRPCOptions(grpc.UseCompressor(gzip.Name)))
	}
	return &publish.Publisher[item, string]{
		Target:  conn.target(),
		Clients: c.ClientsPerWorker,
		Window: publish.Room{
			Batches:  requestsPerClient * c.ClientsPerWorker,
			Messages: c.MaxOutstandingMessages,
			Bytes:    int(c.MaxOutstandingBytes),
		},
		Policy: publish.Policy{
			Attempt:     min(c.PublishTimeout, max(c.PublishTimeout/3, leastAttempt)),
			Total:       c.PublishTimeout,
			MaxAttempts: c.MaxAttempts,
			FirstWait:   firstRetryWait,
			LastWait:    lastRetryWait,
		},
		Hold:      c.OrderingFailure == OrderingHold,
		HoldScope: hold,
		Send:      p.send,
		Classify:  classifyPublish,
	}
}

// send makes one attempt: one request, answered with the id of each message.
func (p *publisher) send(ctx context.Context, client int, b publish.Batch[item]) ([]publish.Reply[string], error) {
	req := &pubsubpb.PublishRequest{Topic: b.Destination, Messages: make([]*pubsubpb.PubsubMessage, len(b.Messages))}
	for i, it := range b.Messages {
		// Checked only here, in its place, are the messages of an ordering key that
		// is to be held: those behind it must fail, those before it must not.
		if p.config.checksInOrder(it.Value) {
			if err := p.config.check(it.Value, it.Time, b.Destination); err != nil {
				return nil, &refusal{err, len(b.Messages) == 1}
			}
		}
		req.Messages[i] = &pubsubpb.PubsubMessage{
			Data:        it.Value.Data,
			Attributes:  p.config.attributes(it.Value, it.Time),
			OrderingKey: p.config.orderingKey(it.Value),
		}
	}
	key := clients.Key{Target: p.conn.target(), Version: p.credentials.current(p.conn), Index: client}
	lease, err := topicClients.Get(ctx, key, p.open)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	resp, err := lease.Client.Publish(ctx, req, p.callOptions...)
	if err != nil {
		return nil, err
	}
	if n := len(resp.GetMessageIds()); n != len(b.Messages) {
		return nil, fmt.Errorf("matching message ids: %d came for %d messages", n, len(b.Messages))
	}
	replies := make([]publish.Reply[string], len(b.Messages))
	for i, id := range resp.GetMessageIds() {
		replies[i].Value = id
	}
	return replies, nil
}

// open makes a client with one connection and without retries of its own. It
// does not wait for the connection.
func (p *publisher) open(ctx context.Context) (*pubsub.TopicAdminClient, error) {
	opts, err := p.conn.clientOptions()
	if err != nil {
		return nil, err
	}
	// The client outlives the attempt that happens to open it.
	c, err := pubsub.NewTopicAdminClient(context.WithoutCancel(ctx), append(opts, gapi.WithGRPCConnectionPool(1))...)
	if err != nil {
		return nil, fmt.Errorf("making Pub/Sub client: %w", err)
	}
	c.CallOptions.Publish = nil
	return c, nil
}
