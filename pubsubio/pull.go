package pubsubio

import (
	"context"
	"log/slog"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// pull reads with unary calls that ask for no more than there is room for.
func (in *inlet) pull(ctx context.Context, c *subscriber, r *queue.Reader[Message]) error {
	for {
		if err := r.WaitRoom(ctx); err != nil {
			return err
		}
		room, _ := r.Room()
		one, cancel := context.WithTimeout(ctx, pullWait)
		resp, err := c.Pull(one, &pubsubpb.PullRequest{
			Subscription: in.sub.Name, MaxMessages: int32(min(max(room, 1), queue.SettleBatch)),
		}, once())
		waited := one.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !waited {
			return err
		}
		in.opened(r, 0) // also where nothing came: the emulator keeps such a call for ever
		lease := in.extend(ctx, resp.GetReceivedMessages())
		r.Deliver(in.deliveries(resp.GetReceivedMessages(), lease))
	}
}

// extend brings the leases of pulled messages, which begin with the
// subscription's own deadline, to the step that renewing counts on. It returns
// how long they are.
func (in *inlet) extend(ctx context.Context, ms []*pubsubpb.ReceivedMessage) time.Duration {
	step, have := in.lease(), in.sub.AckDeadline
	if have >= step/2 || len(ms) == 0 {
		return have
	}
	handles := make([]any, len(ms))
	for i, m := range ms {
		handles[i] = m.GetAckId()
	}
	ctx, cancel := context.WithTimeout(ctx, have/4)
	defer cancel()
	if _, err := in.Renew(ctx, step, handles); err != nil {
		slog.Debug("extending the leases of pulled messages; they are renewed later", "subscription", in.sub.Name, "error", err)
		return have - have/4
	}
	return step
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
		if in.sub.Ordered || in.ordered.Load() {
			d.Order = pm.GetOrderingKey()
		}
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
