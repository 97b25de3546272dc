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
	// How long the last messages of a stream that we end may take.
	closeWait = time.Second
	pullWait  = 5 * time.Second

	minReopen = 100 * time.Millisecond
	maxReopen = 30 * time.Second
	// A stream that has lived this long was a good one.
	steadyAfter = 10 * time.Second
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
	var refused time.Time // since when the credentials are
	for first := true; ; first = false {
		began := time.Now()
		err := in.receiveOnce(ctx, r, i)
		lived := time.Since(began)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errNoFlowControl) {
			in.switchToPull()
			continue
		}
		if status.Code(err) != codes.Unauthenticated || lived > steadyAfter {
			refused = time.Time{}
		} else if refused.IsZero() {
			refused = began
		}
		if !in.worthReopening(err, refused) {
			return in.receiveError(err)
		}
		if lived > steadyAfter {
			wait = minReopen
		}
		in.stats.Reconnects.Add(1)
		in.reopening(ctx, err, wait, first)
		if sleep(ctx, wait) != nil {
			return ctx.Err()
		}
		wait = min(2*wait, maxReopen)
	}
}

// worthReopening tells whether another stream may do better. Credentials that
// are refused may have been changed: their file is read again before long.
func (in *inlet) worthReopening(err error, refused time.Time) bool {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errStalled), retryable(status.Code(err)):
		return true
	default:
		return status.Code(err) == codes.Unauthenticated && time.Since(refused) < 2*credentialsRefresh
	}
}

func (in *inlet) receiveError(err error) error {
	return missingRight(err, "pubsub.subscriptions.consume", fmt.Sprintf("reading subscription %q at %s", in.sub.Name, in.conn.target()))
}

// receiveOnce reads one stream to its end, or pulls until a pull fails.
func (in *inlet) receiveOnce(ctx context.Context, r *queue.Reader[Message], i int) error {
	c, err := in.client(ctx, i)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer in.closed(r, i)
	if !in.isPulling() {
		err = in.stream(ctx, c, r, i)
		if errors.Is(err, errStalled) {
			c.hangUp()
		}
		return err
	}
	if i == 0 {
		return in.pull(ctx, c, r)
	}
	in.opened(r, i) // one puller is enough, and keeps the bound
	<-ctx.Done()
	return ctx.Err()
}

// reopening says that a stream has to be opened again: once in a while, since
// the end of a stream is normal and a broker that is down stays so for long.
func (in *inlet) reopening(ctx context.Context, err error, wait time.Duration, first bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if text := fmt.Sprint(err); text != in.lastErr || time.Since(in.reported) > time.Minute {
		in.lastErr, in.reported = text, time.Now()
		level := slog.LevelWarn
		if errors.Is(err, io.EOF) && !first {
			level = slog.LevelDebug
		}
		slog.Log(ctx, level, "opening the stream again", "subscription", in.sub.Name, "in", wait, "because", err)
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
// does not cannot be called idle. Under the lock to the end, lest the reader
// hears of it in another order.
func (in *inlet) opened(r *queue.Reader[Message], i int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.open == nil {
		in.open = map[int]bool{}
	}
	in.open[i] = true
	if len(in.open) == in.cfg.Streams {
		r.Connected(true)
	}
}

func (in *inlet) closed(r *queue.Reader[Message], i int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.open, i)
	r.Connected(false)
}

// A pulse is what a stream's watchdog looks at.
type pulse struct {
	last   atomic.Int64 // when the server was last heard, Unix nanoseconds
	opened atomic.Bool
	pinged atomic.Bool
	enough chan struct{} // closed when no more is wanted
}

// stream reads one stream to its end. It ends it itself when ctx does, but by
// saying so to the server: a stream that is just cut leaves what is on its way
// leased and unseen for the whole length of a lease.
func (in *inlet) stream(ctx context.Context, c *subscriber, r *queue.Reader[Message], i int) error {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	connecting := context.AfterFunc(ctx, func() { cancel(ctx.Err()) })
	st, err := c.StreamingPull(own, once())
	if !connecting() {
		return ctx.Err()
	}
	if err != nil {
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
		return err
	}
	p := &pulse{enough: make(chan struct{})}
	p.last.Store(time.Now().UnixNano())
	var watch errgroup.Group
	watch.Go(func() error { cancel(in.watch(ctx, own, c, st, r, i, p)); return nil })
	defer func() { cancel(nil); _ = watch.Wait() }()
	err = in.receive(st, r, i, p, lease)
	switch cause := context.Cause(own); {
	case ctx.Err() != nil:
		return ctx.Err()
	case isClosed(p.enough):
		return errNoFlowControl
	case cause != nil:
		return cause
	default:
		return err
	}
}

// receive takes what the stream brings until it ends.
func (in *inlet) receive(st pubsubpb.Subscriber_StreamingPullClient, r *queue.Reader[Message], i int, p *pulse, lease time.Duration) error {
	for {
		resp, err := st.Recv()
		if err != nil {
			return err
		}
		p.last.Store(time.Now().UnixNano())
		if resp.GetSubscriptionProperties().GetMessageOrderingEnabled() {
			in.ordered.Store(true)
		}
		if p.opened.CompareAndSwap(false, true) {
			in.opened(r, i)
		} else if p.pinged.Load() && len(resp.ReceivedMessages) == 0 {
			in.answered()
		}
		over := r.Deliver(in.deliveries(resp.ReceivedMessages, lease))
		if over > in.slack() && !isClosed(p.enough) {
			close(p.enough)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
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

// watch sends keep-alives and tells when and why the stream has to end: the
// server fell silent, or was told to end it and has had time to. own is the
// stream's context, ctx the reader's.
func (in *inlet) watch(ctx, own context.Context, c *subscriber, st pubsubpb.Subscriber_StreamingPullClient, r *queue.Reader[Message], i int, p *pulse) error {
	every := min(pingEvery, in.cfg.StallTimeout/2)
	t := time.NewTimer(min(openAfter, every))
	defer t.Stop()
	for {
		select {
		case <-own.Done():
			return nil
		case <-ctx.Done():
			return in.endStream(own, st, ctx.Err())
		case <-p.enough:
			return in.endStream(own, st, errNoFlowControl)
		case <-t.C:
		}
		if p.opened.CompareAndSwap(false, true) {
			in.opened(r, i)
		}
		silent := time.Since(time.Unix(0, p.last.Load()))
		if silent >= in.cfg.StallTimeout {
			if !in.alive(ctx, c) {
				return errStalled
			}
			p.last.Store(time.Now().UnixNano())
			silent = 0
		}
		if st.Send(&pubsubpb.StreamingPullRequest{}) == nil { // else Recv tells
			p.pinged.Store(true)
		}
		t.Reset(min(every, in.cfg.StallTimeout-silent))
	}
}

// endStream tells the server that no more is wanted and gives it time to end
// the stream, which shows as the end of own.
func (in *inlet) endStream(own context.Context, st pubsubpb.Subscriber_StreamingPullClient, why error) error {
	if st.CloseSend() != nil {
		return why
	}
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-own.Done():
	case <-t.C:
	}
	return why
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
