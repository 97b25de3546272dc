package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CheckRead connects as a Read with the same arguments would and looks up what
// it would read. It takes no message and never seeks. A subscription that may
// be read but not looked at passes.
func CheckRead(ctx context.Context, conn Connection, subscription string, opts ...ReadOption) error {
	cfg, err := newReadConfig(conn, subscription, opts...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err = lookUp(ctx, conn, cfg)
	return err
}

// CheckWrite connects as a Write with the same arguments would and looks up its
// topic. It publishes nothing. A topic that may be written but not looked at
// passes, and so do the topics that messages name themselves.
func CheckWrite(ctx context.Context, conn Connection, opts ...WriteOption) error {
	cfg, err := newWriteConfig(conn, opts...)
	if err != nil || cfg.Topic == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := (&publisher{conn: conn, config: &cfg}).open(ctx)
	if err != nil {
		return fmt.Errorf("looking up topic %q at %s: %w", cfg.Topic, conn.target(), err)
	}
	defer c.Close()
	err = getTopic(ctx, c, cfg.Topic)
	if status.Code(err) == codes.PermissionDenied {
		slog.Info("the topic may perhaps be written but not looked at (pubsub.topics.get)", "topic", cfg.Topic)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up topic %q at %s: %w", cfg.Topic, conn.target(), err)
	}
	return nil
}

// getTopic tries until ctx ends: a broker may be slow to come up.
func getTopic(ctx context.Context, c *pubsub.TopicAdminClient, name string) error {
	var last error
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := c.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: name}, once())
		if err == nil || !retryable(status.Code(err)) {
			return err
		}
		if ctx.Err() == nil {
			last = err
		}
		if sleep(ctx, wait) != nil {
			return errors.Join(last, ctx.Err())
		}
	}
}
