package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	line lineKey
	nth  int64 // of the connections that this line has had, see lines
}

// subscribers are the process's reading connections, shared by all sources.
var subscribers = clients.NewPool(clients.DefaultIdle, func(s *subscriber) error { return s.Close() })

// A lineKey names a place for one connection.
type lineKey struct {
	target string
	index  int
}

// lines counts the connections that were found dead, by place. A network can
// fall silent without a word to gRPC, which then keeps the connection for many
// minutes: the count is part of a client's version, so that all take another.
var lines = struct {
	sync.Mutex
	dead map[lineKey]int64
}{dead: map[lineKey]int64{}}

func deadLines(k lineKey) int64 {
	lines.Lock()
	defer lines.Unlock()
	return lines.dead[k]
}

// hangUp makes everybody take another connection in place of s, once.
func (s *subscriber) hangUp() {
	lines.Lock()
	defer lines.Unlock()
	if lines.dead[s.line] == s.nth {
		lines.dead[s.line]++
	}
}

// clientKey is the key of the connection of that index to conn's service, as it
// has to be now.
func clientKey(conn Connection, w *credentialsWatch, index int) (clients.Key, int64) {
	k := clients.Key{Target: conn.target(), Version: w.current(conn), Index: index}
	nth := deadLines(lineKey{k.Target, k.Index})
	if nth > 0 {
		k.Version += "/" + strconv.FormatInt(nth, 10)
	}
	return k, nth
}

// subscriberOf returns the connection of that index to conn's service.
func subscriberOf(ctx context.Context, conn Connection, w *credentialsWatch, index int) (*clients.Lease[*subscriber], error) {
	key, nth := clientKey(conn, w, index)
	return openSubscriber(ctx, conn, key, nth)
}

func openSubscriber(ctx context.Context, conn Connection, key clients.Key, nth int64) (*clients.Lease[*subscriber], error) {
	return subscribers.Get(ctx, key, func(ctx context.Context) (*subscriber, error) {
		opts, err := conn.clientOptions()
		if err != nil {
			return nil, err
		}
		c, err := vkit.NewSubscriptionAdminClient(context.WithoutCancel(ctx), append(opts, gapi.WithGRPCConnectionPool(1))...)
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", conn.target(), err)
		}
		return &subscriber{c, lineKey{key.Target, key.Index}, nth}, nil
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
	ordered        atomic.Bool // a stream has said that the subscription is

	mu       sync.Mutex
	clients  map[int]heldClient
	pulling  bool         // the server ignores flow control of streams
	answers  bool         // the server is known to answer keep-alives
	open     map[int]bool // the streams that work
	lastErr  string
	reported time.Time
}

// A heldClient is a connection in use, and the key it was asked for by.
type heldClient struct {
	*clients.Lease[*subscriber]
	key clients.Key
}

// client returns the reader's i-th connection. It is another one than before
// when the credentials have changed, or the old one was found dead.
func (in *inlet) client(ctx context.Context, i int) (*subscriber, error) {
	i %= in.cfg.ClientsPerWorker
	key, nth := clientKey(in.conn, &in.watched, i)
	in.mu.Lock()
	have, ok := in.clients[i]
	in.mu.Unlock()
	if ok && have.key == key {
		return have.Client, nil
	}
	l, err := openSubscriber(ctx, in.conn, key, nth)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if have, ok = in.clients[i]; ok {
		have.Release()
	}
	if in.clients == nil {
		in.clients = map[int]heldClient{}
	}
	in.clients[i] = heldClient{l, key}
	return l.Client, nil
}

// Close releases the connections.
func (in *inlet) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.clients {
		l.Release()
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
	wait := minRetry
	for {
		err := call(ctx, ids)
		refused, again, answered := ackResult(err, ids)
		failed = append(failed, refused...)
		if len(again) == 0 {
			return failed, nil // a stale id is no fault of the call
		}
		code := status.Code(err)
		switch {
		case code == codes.InvalidArgument && !answered && len(again) > 1:
			// One bad id spoils the request: find it.
			half := len(again) / 2
			a, errA := in.each(ctx, again[:half], call)
			b, errB := in.each(ctx, again[half:], call)
			return append(append(failed, a...), b...), errors.Join(errA, errB)
		case !answered && !retryable(code) && code != codes.Unauthenticated:
			return append(failed, again...), fmt.Errorf("settling %d messages on %q: %w", len(again), in.sub.Name, err)
		}
		in.retry.count()
		if sleep(ctx, wait) != nil {
			return append(failed, again...), fmt.Errorf("settling %d messages on %q: %w", len(again), in.sub.Name, err)
		}
		ids, wait = again, min(2*wait, maxRetry)
	}
}

// minRetry and maxRetry bound the growing wait before another try.
const (
	minRetry = 50 * time.Millisecond
	maxRetry = 5 * time.Second
)

// ackResult reads the answer to an Acknowledge or ModifyAckDeadline: which ids
// are refused for good, and which have to be tried again. A subscription with
// exactly-once delivery answers for each id in the error's metadata; an id that
// is not mentioned there is done. Other errors have metadata too, about other
// things.
func ackResult(err error, ids []string) (refused, again []string, answered bool) {
	if err == nil {
		return nil, nil, true
	}
	var api *apierror.APIError
	if !errors.As(err, &api) {
		return nil, ids, false
	}
	perID := api.Metadata()
	for _, id := range ids {
		switch why, ok := perID[id]; {
		case !ok:
			continue
		case strings.HasPrefix(why, "TRANSIENT_"):
			again = append(again, id)
		default: // PERMANENT_FAILURE_INVALID_ACK_ID
			refused = append(refused, id)
		}
		answered = true
	}
	if !answered {
		return nil, ids, false
	}
	return refused, again, true
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
