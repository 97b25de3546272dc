package pubsubio

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/publish"
)

func init() {
	register.DoFn4x1[context.Context, beam.EventTime, Message, func(beam.EventTime, PublishResult), error](&resendFn{})
}

const (
	firstResendWait = time.Second
	lastResendWait  = 30 * time.Second
	// resendReminder is how often a message that still fails is logged.
	resendReminder = 5 * time.Minute
)

// Resend publishes each Message of col, one after another, and tries it until
// the service takes it: also a message that was refused for good, since a topic
// can be repaired. Nothing behind it in its bundle moves meanwhile, so it is for
// the Failed of a Write where losing a message and stopping are both worse. The
// result is a PCollection<PublishResult> with one element for each message.
//
// It panics on options that are wrong.
func Resend(s beam.Scope, conn Connection, col beam.PCollection, opts ...WriteOption) beam.PCollection {
	c, err := newWriteConfig(conn, opts...)
	if err != nil {
		panic(fmt.Errorf("pubsubio.Resend: %w", err))
	}
	// Each message is tried until it is published, so none is held behind it.
	c.OrderingFailure = OrderingResume
	return beam.ParDo(s.Scope("pubsubio.Resend"), &resendFn{Conn: conn, Config: c, Nonce: rand.Text()}, col)
}

type resendFn struct {
	Conn   Connection
	Config writeConfig
	Nonce  string

	sink sink
}

// Setup prepares the way to the broker.
func (f *resendFn) Setup() { f.sink.setUp(f.Conn, &f.Config, f.Nonce) }

// ProcessElement returns when m is published or ctx ends.
func (f *resendFn) ProcessElement(ctx context.Context, et beam.EventTime, m Message, ok func(beam.EventTime, PublishResult)) error {
	var told time.Time
	for wait := firstResendWait; ; wait = min(2*wait, lastResendWait) {
		reason, err := f.try(ctx, et, m, ok)
		if err != nil || reason == "" {
			return err
		}
		if time.Since(told) > resendReminder {
			slog.Warn("a message cannot be written and is tried again; everything behind it waits", "message", m.MessageID, "reason", reason)
			told = time.Now()
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("waiting to publish message %q again: %w", m.MessageID, err)
		}
	}
}

// try makes one round of attempts; reason says why m was not published.
func (f *resendFn) try(ctx context.Context, et beam.EventTime, m Message, ok func(beam.EventTime, PublishResult)) (reason string, err error) {
	topic, err := f.Config.destination(m)
	if err != nil {
		return err.Error(), nil
	}
	f.sink.start(ctx)
	b := publish.Batch[item]{Destination: topic, Messages: []item{{Value: m, Time: int64(et)}}, Bytes: f.Config.itemBytes(m, int64(et))}
	if key := f.Config.orderingKey(m); key != "" {
		b.Order = topic + "\x00" + key
	}
	if err := f.sink.session.Submit(b); err != nil {
		return "", err
	}
	err = f.sink.finish(ctx, ok, func(_ beam.EventTime, m FailedMessage) { reason = m.Reason })
	return reason, err
}
