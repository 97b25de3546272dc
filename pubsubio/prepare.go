package pubsubio

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func([]byte), error](&prepareFn{})
	register.Emitter1[[]byte]()
}

// startTimeout bounds how long a source waits for its broker at the start.
const startTimeout = 8 * time.Second

// defaultSubscriptionDeadline is the service's default, for a subscription that
// may be read but not looked at.
const defaultSubscriptionDeadline = 10 * time.Second

// A subscription is what is known of the subscription before its first message
// is read. It travels to the source as JSON.
type subscription struct {
	Name        string
	Topic       string // full name, empty where not known
	AckDeadline time.Duration
	Ordered     bool
	ExactlyOnce bool
	// Schema is the definition that fields are decoded to, empty without one.
	Schema string
	// SchemaName and SchemaRevision say where Schema is from.
	SchemaName, SchemaRevision string
}

// prepareFn does what has to be done once per job and before the first message:
// it looks the subscription up and seeks. It runs on a worker, so that building
// or checking a pipeline touches nothing.
type prepareFn struct {
	Conn   Connection
	Config readConfig
}

// ProcessElement emits the subscription, as JSON.
func (f *prepareFn) ProcessElement(ctx context.Context, _ []byte, emit func([]byte)) error {
	sub, err := prepare(ctx, f.Conn, f.Config)
	if err != nil {
		return err
	}
	b, err := json.Marshal(sub)
	if err != nil {
		return fmt.Errorf("encoding subscription: %w", err)
	}
	emit(b)
	return nil
}

func prepare(ctx context.Context, conn Connection, cfg readConfig) (subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	sub, err := lookUp(ctx, conn, cfg)
	if err != nil {
		return sub, err
	}
	return sub, seek(ctx, conn, cfg, sub.Name)
}

// lookUp reads the subscription's settings, and the schema where one is needed.
func lookUp(ctx context.Context, conn Connection, cfg readConfig) (subscription, error) {
	sub := subscription{Name: cfg.Subscription, AckDeadline: defaultSubscriptionDeadline, Topic: cfg.Topic}
	got, err := getSubscription(ctx, conn, cfg.Subscription)
	switch {
	case err == nil:
		sub.AckDeadline = time.Duration(got.AckDeadlineSeconds) * time.Second
		sub.Ordered = got.EnableMessageOrdering
		sub.ExactlyOnce = got.EnableExactlyOnceDelivery
		if sub.Topic == "" {
			sub.Topic = got.Topic
		}
	case status.Code(err) == codes.PermissionDenied && (!cfg.needsTopic() || sub.Topic != ""):
		// Reading needs pubsub.subscriptions.consume only.
		slog.Info("the subscription may be read but not looked at (pubsub.subscriptions.get); going on without its settings", "subscription", sub.Name)
	case status.Code(err) == codes.PermissionDenied:
		return sub, fmt.Errorf("finding the topic of %q: give the right pubsub.subscriptions.get, or the option topic: %w", sub.Name, err)
	default:
		return sub, fmt.Errorf("looking up subscription %q at %s: %w", sub.Name, conn.target(), err)
	}
	if !cfg.needsTopic() {
		return sub, nil
	}
	return withSchema(ctx, conn, sub)
}

// needsTopic tells whether messages are decoded by the topic's schema.
func (c *readConfig) needsTopic() bool {
	return (c.SchemaMode == SchemaDynamic || c.SchemaMode == SchemaMixed) && c.Schema == ""
}

// getSubscription tries until ctx ends: a broker may be slow to come up.
func getSubscription(ctx context.Context, conn Connection, name string) (*pubsubpb.Subscription, error) {
	l, err := subscriberOf(ctx, conn, &credentialsWatch{}, 0)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	var last error
	for wait := minRetry; ; wait = min(2*wait, time.Second) {
		sub, err := l.Client.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name}, once())
		if err == nil || !retryable(status.Code(err)) {
			return sub, err
		}
		if last == nil || ctx.Err() == nil { // the end of ctx tells less than what was before
			last = err
		}
		if sleep(ctx, wait) != nil {
			return nil, fmt.Errorf("no success within %v: %w", startTimeout, last)
		}
	}
}

// seek moves the subscription where the job asks for it. A second run of this
// step before the job's first commit does no harm.
func seek(ctx context.Context, conn Connection, cfg readConfig, name string) error {
	req := &pubsubpb.SeekRequest{Subscription: name}
	var to string
	switch cfg.Seek {
	case SeekNone:
		return nil
	case SeekBeginning:
		to = "the beginning of what is retained"
		req.Target = &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Unix(0, 0))}
	case SeekToTime:
		to = cfg.SeekTime.UTC().Format(time.RFC3339Nano)
		req.Target = &pubsubpb.SeekRequest_Time{Time: timestamppb.New(cfg.SeekTime)}
	case SeekToSnapshot:
		to = cfg.SeekSnapshot
		req.Target = &pubsubpb.SeekRequest_Snapshot{Snapshot: cfg.SeekSnapshot}
	}
	l, err := subscriberOf(ctx, conn, &credentialsWatch{}, 0)
	if err != nil {
		return err
	}
	defer l.Release()
	if _, err := l.Client.Seek(ctx, req); err != nil {
		right := "pubsub.subscriptions.consume"
		if cfg.Seek == SeekToSnapshot {
			right += " or pubsub.snapshots.seek"
		}
		return missingRight(err, right, fmt.Sprintf("seeking %q to %s", name, to))
	}
	slog.Info("the subscription was set back; messages are delivered again from there", "subscription", name, "to", to)
	return nil
}

// prepared is the pipeline's step before the source.
func prepared(s beam.Scope, conn Connection, cfg readConfig) beam.PCollection {
	return beam.ParDo(s, &prepareFn{Conn: conn, Config: cfg}, beam.Impulse(s))
}
