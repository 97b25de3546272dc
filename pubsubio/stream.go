package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/beam-brokers/beam-brokers/internal/queue"
)

const (
	// The service answers keep-alives since version 1 of the streaming protocol.
	streamProtocol = 1
	pingEvery      = 30 * time.Second
	// A stream that has said nothing after this is taken to be open.
	openAfter    = time.Second
	probeTimeout = 5 * time.Second
	pullWait     = 5 * time.Second

	minReopen = 100 * time.Millisecond
	maxReopen = 30 * time.Second
)

var (
	errStalled       = errors.New("the stream was silent for longer than stallTimeout")
	errNoFlowControl = errors.New("the server ignores the flow control of streams")
)

// Receive keeps the streams open until ctx ends.
func (in *inlet) Receive(ctx context.Context, r *queue.Reader[Message]) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range in.cfg.Streams {
		g.Go(func() error { return in.keepReceiving(ctx, r, i) })
	}
	return g.Wait()
}

// keepReceiving reads, and reopens the stream whenever it ends: the service
// closes streams after half an hour, and networks sooner.
func (in *inlet) keepReceiving(ctx context.Context, r *queue.Reader[Message], i int) error {
	wait := minReopen
	for first := true; ; first = false {
		began := time.Now()
		err := in.receiveOnce(ctx, r, i)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNoFlowControl):
			in.switchToPull()
			continue
		case errors.Is(err, io.EOF), errors.Is(err, errStalled):
		case !retryable(status.Code(err)):
			return fmt.Errorf("reading subscription %q at %s: %w", in.sub.Name, in.conn.target(), err)
		}
		if time.Since(began) > maxReopen {
			wait = minReopen
		}
		in.stats.Reconnects.Add(1)
		in.reopening(err, wait, first)
		if sleep(ctx, wait) != nil {
			return ctx.Err()
		}
		wait = min(2*wait, maxReopen)
	}
}

// receiveOnce reads one stream to its end, or pulls until a pull fails.
func (in *inlet) receiveOnce(ctx context.Context, r *queue.Reader[Message], i int) error {
	c, err := in.client(ctx, i)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer in.closed(r)
	if in.isPulling() {
		return in.pull(ctx, c, r)
	}
	err = in.stream(ctx, c, r)
	if errors.Is(err, errStalled) {
		in.renewClient(i) // the connection itself may be dead
	}
	return err
}

// reopening says that a stream has to be opened again: once in a while, since
// the end of a stream is normal and a broker that is down stays so for long.
func (in *inlet) reopening(err error, wait time.Duration, first bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if text := fmt.Sprint(err); text != in.lastErr || time.Since(in.reported) > time.Minute {
		in.lastErr, in.reported = text, time.Now()
		level := slog.LevelWarn
		if errors.Is(err, io.EOF) && !first {
			level = slog.LevelDebug
		}
		slog.Log(context.TODO(), level, "opening the stream again", "subscription", in.sub.Name, "in", wait, "because", err)
	}
}

func (in *inlet) isPulling() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pulling
}

func (in *inlet) switchToPull() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.pulling {
		in.pulling = true
		slog.Info("the server sends more than the stream's limits allow (the official emulator does); reading with Pull instead",
			"subscription", in.sub.Name, "maxOutstandingMessages", in.cfg.MaxOutstandingMessages)
	}
}

// opened and closed keep count of the streams that work; a reader with one that
// does not cannot be called idle.
func (in *inlet) opened(r *queue.Reader[Message]) {
	in.mu.Lock()
	in.healthy++
	all := in.healthy >= in.cfg.Streams
	in.mu.Unlock()
	if all {
		r.Connected(true)
	}
}

func (in *inlet) closed(r *queue.Reader[Message]) {
	in.mu.Lock()
	in.healthy = max(in.healthy-1, 0)
	in.mu.Unlock()
	r.Connected(false)
}

// A pulse is what a stream's watchdog looks at.
type pulse struct {
	last   atomic.Int64 // when the server was last heard, Unix nanoseconds
	opened atomic.Bool
}

func (in *inlet) stream(ctx context.Context, c *subscriber, r *queue.Reader[Message]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	st, err := c.StreamingPull(ctx, once())
	if err != nil {
		cancel(nil)
		return err
	}
	lease := in.lease()
	err = st.Send(&pubsubpb.StreamingPullRequest{
		Subscription:             in.sub.Name,
		StreamAckDeadlineSeconds: int32(lease / time.Second),
		MaxOutstandingMessages:   int64(max(in.cfg.MaxOutstandingMessages/in.cfg.Streams, 1)),
		MaxOutstandingBytes:      max(in.cfg.MaxOutstandingBytes/int64(in.cfg.Streams), 1),
		ProtocolVersion:          streamProtocol,
	})
	if err != nil && !errors.Is(err, io.EOF) { // EOF: Recv tells the reason
		cancel(nil)
		return err
	}
	p := &pulse{}
	p.last.Store(time.Now().UnixNano())
	var watch errgroup.Group
	watch.Go(func() error { in.watch(ctx, cancel, c, st, r, p); return nil })
	defer func() { cancel(nil); _ = watch.Wait() }()
	for {
		resp, err := st.Recv()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		p.last.Store(time.Now().UnixNano())
		if len(resp.ReceivedMessages) == 0 {
			in.answered()
		}
		if p.opened.CompareAndSwap(false, true) {
			in.opened(r)
		}
		if over := r.Deliver(in.deliveries(resp.ReceivedMessages, lease)); over > in.slack() {
			return errNoFlowControl
		}
	}
}

// slack is how far a server may overrun the limit before it counts as one that
// has none: the service promises to keep it only roughly.
func (in *inlet) slack() int { return max(in.cfg.MaxOutstandingMessages/2, 200) }

func (in *inlet) answered() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.answers = true
}

// watch sends keep-alives and ends the stream when the server falls silent.
func (in *inlet) watch(ctx context.Context, cancel context.CancelCauseFunc, c *subscriber, st pubsubpb.Subscriber_StreamingPullClient, r *queue.Reader[Message], p *pulse) {
	every := min(pingEvery, in.cfg.StallTimeout/2)
	t := time.NewTimer(min(openAfter, every))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if p.opened.CompareAndSwap(false, true) {
			in.opened(r)
		}
		silent := time.Since(time.Unix(0, p.last.Load()))
		if silent >= in.cfg.StallTimeout {
			if !in.alive(ctx, c) {
				cancel(errStalled)
				return
			}
			p.last.Store(time.Now().UnixNano())
		}
		if st.Send(&pubsubpb.StreamingPullRequest{}) != nil {
			return // Recv tells
		}
		t.Reset(every)
	}
}

// alive tells whether a silent stream may be believed. A server that has
// answered keep-alives before would have answered; of another, which does not
// know them, the connection is asked.
func (in *inlet) alive(ctx context.Context, c *subscriber) bool {
	in.mu.Lock()
	answers := in.answers
	in.mu.Unlock()
	if answers {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: in.sub.Name}, once())
	return err == nil || !retryable(status.Code(err))
}

// pull reads with unary calls that ask for no more than there is room for.
func (in *inlet) pull(ctx context.Context, c *subscriber, r *queue.Reader[Message]) error {
	in.opened(r)
	for {
		if err := r.WaitRoom(ctx); err != nil {
			return err
		}
		room, _ := r.Room()
		one, cancel := context.WithTimeout(ctx, pullWait)
		resp, err := c.Pull(one, &pubsubpb.PullRequest{
			Subscription: in.sub.Name, MaxMessages: int32(min(room, queue.SettleBatch)),
		}, once())
		waited := one.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil {
			if waited {
				continue // nothing came; the emulator keeps such a call for ever
			}
			return err
		}
		ms := in.deliveries(resp.ReceivedMessages, in.sub.AckDeadline)
		r.Deliver(ms)
		in.extend(ctx, ms)
	}
}

// extend brings the leases of pulled messages, which begin with the
// subscription's own deadline, to the step that renewing counts on.
func (in *inlet) extend(ctx context.Context, ms []queue.Delivery[Message]) {
	step := in.lease()
	if in.sub.AckDeadline >= step/2 || len(ms) == 0 {
		return
	}
	handles := make([]any, len(ms))
	for i := range ms {
		handles[i] = ms[i].Handle
	}
	if _, err := in.Renew(ctx, step, handles); err != nil && ctx.Err() == nil {
		slog.Warn("extending the leases of pulled messages", "subscription", in.sub.Name, "error", err)
	}
}

// deliveries makes the engine's form of received messages.
func (in *inlet) deliveries(ms []*pubsubpb.ReceivedMessage, lease time.Duration) []queue.Delivery[Message] {
	out := make([]queue.Delivery[Message], len(ms))
	for i, m := range ms {
		pm := m.GetMessage()
		d := &out[i]
		d.Msg = Message{
			Data:            pm.GetData(),
			Attributes:      pm.GetAttributes(),
			MessageID:       pm.GetMessageId(),
			PublishTime:     pm.GetPublishTime().AsTime(),
			OrderingKey:     pm.GetOrderingKey(),
			AckID:           m.GetAckId(),
			DeliveryAttempt: m.GetDeliveryAttempt(),
		}
		d.ID = pm.GetMessageId()
		if a := in.cfg.IDAttribute; a != "" {
			d.Key = pm.GetAttributes()[a]
		}
		d.Time = in.eventTime(&d.Msg)
		d.Bytes = len(pm.GetData())
		for k, v := range pm.GetAttributes() {
			d.Bytes += len(k) + len(v)
		}
		d.Handle = m.GetAckId()
		d.Lease = lease
		d.Attempt = int(m.GetDeliveryAttempt())
	}
	return out
}
