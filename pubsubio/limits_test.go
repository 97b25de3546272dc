package pubsubio

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beam-brokers/beam-brokers/internal/clients"
	"github.com/beam-brokers/beam-brokers/internal/publish"
)

// The request's size is computed without building it; it must be exact, since
// one byte too many fails a whole request.
func TestComputedSizeIsTheEncodedSize(t *testing.T) {
	text := rapid.StringN(0, 200, 1000)
	rapid.Check(t, func(t *rapid.T) {
		c := defaultWriteConfig()
		c.IDAttribute = rapid.SampledFrom([]string{"", "id"}).Draw(t, "idAttribute")
		c.TimestampAttribute = rapid.SampledFrom([]string{"", "ts"}).Draw(t, "timestampAttribute")
		topic := "projects/p/topics/" + rapid.StringN(3, 255, 255).Draw(t, "topic")
		req := &pubsubpb.PublishRequest{Topic: topic}
		size := topicBytes(topic)
		for i := range rapid.IntRange(1, 5).Draw(t, "messages") {
			m := Message{
				Data:        make([]byte, rapid.SampledFrom([]int{0, 1, 100, 127, 128, 16384, 100_000}).Draw(t, "data")),
				Attributes:  rapid.MapOfN(text, text, 0, 5).Draw(t, "attributes"),
				OrderingKey: text.Draw(t, "key"),
				MessageID:   fmt.Sprint("id", i),
			}
			et := rapid.Int64Range(0, 1<<41).Draw(t, "time")
			req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{
				Data: m.Data, Attributes: c.attributes(m, et), OrderingKey: c.orderingKey(m),
			})
			size += c.itemBytes(m, et)
		}
		if want := proto.Size(req); size != want {
			t.Fatalf("computed %d bytes, the request has %d", size, want)
		}
	})
}

func TestPublishErrorsAreClassified(t *testing.T) {
	rpc := func(c codes.Code, text string) error { return fmt.Errorf("wrapped: %w", status.Error(c, text)) }
	for name, tc := range map[string]struct {
		err  error
		want publish.Verdict
	}{
		"timeout of the attempt":          {context.DeadlineExceeded, publish.Verdict{Retry: true, Unknown: true}},
		"timeout at the service":          {rpc(codes.DeadlineExceeded, ""), publish.Verdict{Retry: true, Unknown: true}},
		"connection lost":                 {rpc(codes.Unavailable, "error reading from server: EOF"), publish.Verdict{Retry: true, Unknown: true}},
		"never connected":                 {rpc(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp: connection refused"`), publish.Verdict{Retry: true}},
		"no client":                       {&clients.OpenError{Err: errors.New("no file")}, publish.Verdict{Retry: true}},
		"quota":                           {rpc(codes.ResourceExhausted, "quota exceeded"), publish.Verdict{Retry: true}},
		"request too large for a server":  {rpc(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), publish.Verdict{Blame: true}},
		"bad message":                     {rpc(codes.InvalidArgument, "schema"), publish.Verdict{Blame: true}},
		"no topic":                        {rpc(codes.NotFound, "topic"), publish.Verdict{}},
		"no right":                        {rpc(codes.PermissionDenied, ""), publish.Verdict{}},
		"credentials being rotated":       {rpc(codes.Unauthenticated, ""), publish.Verdict{Retry: true}},
		"internal error":                  {rpc(codes.Internal, ""), publish.Verdict{Retry: true, Unknown: true}},
		"aborted":                         {rpc(codes.Aborted, ""), publish.Verdict{Retry: true}},
		"illegal message among others":    {&refusal{errors.New("x"), false}, publish.Verdict{Blame: true, NotSent: true}},
		"illegal message, alone":          {&refusal{errors.New("x"), true}, publish.Verdict{NotSent: true}},
		"an error that says nothing more": {errors.New("what?"), publish.Verdict{Retry: true, Unknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classifyPublish(tc.err); got != tc.want {
				t.Errorf("%v is %+v, want %+v", tc.err, got, tc.want)
			}
		})
	}
}
