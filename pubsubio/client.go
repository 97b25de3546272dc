package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/apierror"
	gapi "google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/beam-brokers/beam-brokers/internal/clients"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// A subscriber is one connection of the process for reading.
type subscriber struct {
	*vkit.SubscriptionAdminClient
}

// subscribers are the process's reading connections, shared by all sources.
var subscribers = clients.NewPool(clients.DefaultIdle, func(s *subscriber) error { return s.Close() })

// subscriberOf returns the connection of that index to conn's service.
func subscriberOf(ctx context.Context, conn Connection, w *credentialsWatch, index int) (*clients.Lease[*subscriber], error) {
	key := clients.Key{Target: conn.target(), Version: w.current(conn), Index: index}
	return subscribers.Get(ctx, key, func(ctx context.Context) (*subscriber, error) {
		opts, err := conn.clientOptions()
		if err != nil {
			return nil, err
		}
		c, err := vkit.NewSubscriptionAdminClient(context.WithoutCancel(ctx), append(opts, gapi.WithGRPCConnectionPool(1))...)
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", conn.target(), err)
		}
		return &subscriber{c}, nil
	})
}

// once makes a call without the client's own retries: how long to try is ours
// to say (maxRetryTime).
func once() gax.CallOption {
	return gax.WithRetry(func() gax.Retryer { return gax.OnErrorFunc(gax.Backoff{}, func(error) bool { return false }) })
}

// An inlet receives the messages of one reader and settles them.
type inlet struct {
	conn    Connection
	cfg     readConfig
	sub     subscription
	stats   *queue.Stats
	retry   retryCounter
	lease   func() time.Duration
	watched credentialsWatch
	// commitInterval is the time from a call's begin to its commit, in
	// nanoseconds, 0 while not known.
	commitInterval atomic.Int64

	mu       sync.Mutex
	clients  []*clients.Lease[*subscriber]
	pulling  bool // the server ignores flow control of streams
	answers  bool // the server is known to answer keep-alives
	healthy  int  // streams that are open
	lastErr  string
	reported time.Time
}

// client returns the reader's i-th connection, opening it when there is none.
func (in *inlet) client(ctx context.Context, i int) (*subscriber, error) {
	i %= in.cfg.ClientsPerWorker
	in.mu.Lock()
	for len(in.clients) <= i {
		in.clients = append(in.clients, nil)
	}
	have := in.clients[i]
	in.mu.Unlock()
	if have != nil {
		return have.Client, nil
	}
	l, err := subscriberOf(ctx, in.conn, &in.watched, i)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.clients[i] != nil {
		l.Release()
		return in.clients[i].Client, nil
	}
	in.clients[i] = l
	return l.Client, nil
}

// renewClient lets go of a connection, so that changed credentials are read.
func (in *inlet) renewClient(i int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if i %= in.cfg.ClientsPerWorker; i < len(in.clients) && in.clients[i] != nil {
		in.clients[i].Release()
		in.clients[i] = nil
	}
}

// Close releases the connections.
func (in *inlet) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.clients {
		if l != nil {
			l.Release()
		}
	}
	in.clients = nil
	return nil
}

// Settle acknowledges, or gives back with a deadline of zero. Pub/Sub has no
// way to give back a message without counting the delivery.
func (in *inlet) Settle(ctx context.Context, how queue.Settlement, handles []any) ([]any, error) {
	call := in.acknowledge
	if how != queue.Ack {
		call = func(ctx context.Context, ids []string) error { return in.modify(ctx, ids, 0) }
	}
	ctx, cancel := context.WithTimeout(ctx, in.cfg.retryTime(in.lease()))
	defer cancel()
	failed, err := in.each(ctx, ackIDs(handles), call)
	return asHandles(failed), err
}

// Renew moves the deadlines of leases to step from now.
func (in *inlet) Renew(ctx context.Context, step time.Duration, handles []any) ([]any, error) {
	lost, err := in.each(ctx, ackIDs(handles), func(ctx context.Context, ids []string) error {
		return in.modify(ctx, ids, step)
	})
	if err != nil && ctx.Err() != nil {
		return nil, err // not answered in time is not lost
	}
	return asHandles(lost), err
}

func (in *inlet) acknowledge(ctx context.Context, ids []string) error {
	c, err := in.client(ctx, 0)
	if err != nil {
		return err
	}
	return c.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: in.sub.Name, AckIds: ids}, once())
}

func (in *inlet) modify(ctx context.Context, ids []string, step time.Duration) error {
	c, err := in.client(ctx, 0)
	if err != nil {
		return err
	}
	return c.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: in.sub.Name, AckIds: ids, AckDeadlineSeconds: int32(step / time.Second),
	}, once())
}

// each makes a call for ids until all are answered for or ctx ends. It returns
// the ids that were refused for good or not answered.
func (in *inlet) each(ctx context.Context, ids []string, call func(context.Context, []string) error) (failed []string, err error) {
	wait := 50 * time.Millisecond
	for {
		err := call(ctx, ids)
		refused, again := ackResult(err, ids)
		failed = append(failed, refused...)
		if len(again) == 0 {
			return failed, nil // a stale id is no fault of the call
		}
		if code := status.Code(err); code == codes.InvalidArgument && len(again) > 1 {
			// One bad id spoils the request: find it.
			half := len(again) / 2
			a, errA := in.each(ctx, again[:half], call)
			b, errB := in.each(ctx, again[half:], call)
			return append(append(failed, a...), b...), errors.Join(errA, errB)
		} else if !retryable(code) {
			return append(failed, again...), fmt.Errorf("settling %d messages on %q: %w", len(again), in.sub.Name, err)
		}
		in.retry.count()
		if err := sleep(ctx, wait); err != nil {
			return append(failed, again...), fmt.Errorf("settling %d messages on %q: %w", len(again), in.sub.Name, err)
		}
		ids, wait = again, min(2*wait, 5*time.Second)
	}
}

// ackResult reads the answer to an Acknowledge or ModifyAckDeadline: which ids
// are refused for good, and which have to be tried again. A subscription with
// exactly-once delivery answers for each id in the error's metadata.
func ackResult(err error, ids []string) (refused, again []string) {
	if err == nil {
		return nil, nil
	}
	var api *apierror.APIError
	var perID map[string]string
	if errors.As(err, &api) {
		perID = api.Metadata()
	}
	if len(perID) == 0 {
		return nil, ids
	}
	for _, id := range ids {
		switch why := perID[id]; {
		case len(why) >= 9 && why[:9] == "TRANSIENT":
			again = append(again, id)
		case len(why) >= 9 && why[:9] == "PERMANENT":
			refused = append(refused, id)
		}
	}
	return refused, again
}

// retryable tells whether an ack, nack or stream is worth another try.
func retryable(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.ResourceExhausted, codes.Unknown, codes.Canceled:
		return true
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func ackIDs(handles []any) []string {
	ids := make([]string, len(handles))
	for i, h := range handles {
		ids[i] = h.(string)
	}
	return ids
}

func asHandles(ids []string) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}
