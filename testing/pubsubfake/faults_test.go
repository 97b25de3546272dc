package pubsubfake_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// tryPublish publishes without the client's retries.
func (f *fixture) tryPublish(msgs ...*pubsubpb.PubsubMessage) error {
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	_, err := f.raw().Publish(ctx, &pubsubpb.PublishRequest{Topic: topicA, Messages: msgs})
	return err
}

func (f *fixture) raw() pubsubpb.PublisherClient {
	return pubsubpb.NewPublisherClient(f.pub.Connection()) //nolint:staticcheck // the only way to its connection
}

func TestFaultStrikesOnlyWhatItIsAbout(t *testing.T) {
	for name, tc := range map[string]struct {
		fault pubsubfake.Fault
		want  string // the numbers of the messages refused, of 0..5
	}{
		"all":           {pubsubfake.Fault{Method: "Publish"}, "012345"},
		"other method":  {pubsubfake.Fault{Method: "Pull"}, ""},
		"topic":         {pubsubfake.Fault{Topic: topicA}, "012345"},
		"other topic":   {pubsubfake.Fault{Topic: topicB}, ""},
		"skip":          {pubsubfake.Fault{Method: "Publish", Skip: 4}, "45"},
		"times":         {pubsubfake.Fault{Method: "Publish", Times: 2}, "01"},
		"skip, times":   {pubsubfake.Fault{Method: "Publish", Skip: 1, Times: 2}, "12"},
		"every":         {pubsubfake.Fault{Method: "Publish", Every: 3}, "25"},
		"ordering key":  {pubsubfake.Fault{OrderingKey: "k2"}, "2"},
		"attribute":     {pubsubfake.Fault{Attributes: map[string]string{"n": "3"}}, "3"},
		"match":         {pubsubfake.Fault{Match: func(m *pubsubpb.PubsubMessage) bool { return m.OrderingKey > "k3" }}, "45"},
		"match, times":  {pubsubfake.Fault{Match: func(m *pubsubpb.PubsubMessage) bool { return m.OrderingKey > "k1" }, Times: 1}, "2"},
		"lost, no work": {pubsubfake.Fault{Attributes: map[string]string{"n": "x"}, LoseAnswer: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, nil)
				tc.fault.Code, tc.fault.Text = codes.PermissionDenied, "not you"
				in := f.srv.Inject(tc.fault)
				refused := ""
				for _, n := range []string{"0", "1", "2", "3", "4", "5"} {
					err := f.tryPublish(&pubsubpb.PubsubMessage{OrderingKey: "k" + n, Attributes: map[string]string{"n": n}})
					if err != nil {
						f.wantCode(err, codes.PermissionDenied)
						if !strings.Contains(err.Error(), "not you") {
							t.Fatal(err)
						}
						refused += n
					}
				}
				if refused != tc.want || in.Fired() != len(tc.want) {
					t.Fatalf("refused %q, want %q; fired %d", refused, tc.want, in.Fired())
				}
				if n := len(f.srv.Published(topicA)); n != 6-len(tc.want) {
					t.Fatalf("%d stored", n)
				}
			})
		})
	}
}

func TestLostAnswerStoresTheMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.srv.Inject(pubsubfake.Fault{Method: "Publish", LoseAnswer: true, Times: 1})
		f.wantCode(f.tryPublish(text("x")), codes.Unavailable)
		if n := len(f.srv.Published(topicA)); n != 1 {
			t.Fatalf("%d stored", n)
		}
		f.srv.Inject(pubsubfake.Fault{Method: "Publish", LoseAnswer: true, Hang: true, Times: 1})
		begin := time.Now()
		f.wantCode(f.tryPublish(text("y")), codes.DeadlineExceeded)
		if time.Since(begin) != time.Minute || len(f.srv.Published(topicA)) != 2 {
			t.Fatalf("after %v", time.Since(begin))
		}
	})
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		before := f.srv.Inject(pubsubfake.Fault{Method: "Publish", Delay: 3 * time.Second})
		begin := time.Now()
		f.publish(text("x"))
		if got := f.srv.Published(topicA)[0].PublishTime.AsTime(); time.Since(begin) != 3*time.Second || !got.Equal(begin.Add(3*time.Second)) {
			t.Fatalf("took %v, stored at %v", time.Since(begin), got)
		}
		before.Remove()
		f.srv.Inject(pubsubfake.Fault{Method: "Publish", AnswerDelay: 2 * time.Second})
		begin = time.Now()
		f.publish(text("y"))
		if got := f.srv.Published(topicA)[1].PublishTime.AsTime(); time.Since(begin) != 2*time.Second || !got.Equal(begin) {
			t.Fatalf("took %v, stored at %v", time.Since(begin), got)
		}
		f.srv.ClearFaults()
		begin = time.Now()
		f.publish(text("z"))
		if time.Since(begin) != 0 {
			t.Fatalf("took %v", time.Since(begin))
		}
	})
}

func TestStalledRenewalsHaveNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		id := f.pull(subA, 1)[0].AckId
		f.srv.StallModAck(subA, true)
		time.Sleep(5 * time.Second)
		must(t, f.modAck(subA, 60, id))
		time.Sleep(5 * time.Second)
		if s := f.srv.Stats(subA); s.Expired != 1 || s.ModAcked != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestSwallowedAcksLeaveTheMessageLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(2)...)
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		got := f.recv(st, 2)
		f.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", Subscription: subA, Swallow: true})
		must(t, f.ack(subA, got[0].AckId))
		must(t, st.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{got[1].AckId}}))
		synctest.Wait()
		if s := f.srv.Stats(subA); s.Acked != 0 || s.Outstanding != 2 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestTransientAckFailuresNameTheIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		f.publish(text("x"))
		id := f.pull(subA, 1)[0].AckId
		f.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", AckReason: "TRANSIENT_FAILURE_UNKNOWN", Code: codes.Internal, Times: 1})
		err := f.ack(subA, id)
		f.wantCode(err, codes.Internal)
		if api, ok := apierror.FromError(err); !ok || api.Metadata()[id] != "TRANSIENT_FAILURE_UNKNOWN" {
			t.Fatal(err)
		}
		must(t, f.ack(subA, id))
	})
}

func TestStreamOpeningCanFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		in := f.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.PermissionDenied, Delay: time.Second, Times: 1})
		_, err := f.stream(&pubsubpb.StreamingPullRequest{}).Recv()
		f.wantCode(err, codes.PermissionDenied)
		if in.Fired() != 1 || f.srv.Stats(subA).StreamsOpened != 0 {
			t.Fatal("opened")
		}
		_, err = f.stream(&pubsubpb.StreamingPullRequest{}).Recv()
		must(t, err)
	})
}

func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.srv.Duplicate(subA, 2)
		f.publish(numbered(3)...)
		first := f.pull(subA, 10)
		f.wantBodies(first, "0", "1", "2")
		must(t, f.ack(subA, ids(first)...))
		second := f.pull(subA, 10)
		f.wantBodies(second, "1")
		must(t, f.ack(subA, ids(second)...))
		f.srv.DuplicateEvery(subA, 2)
		f.publish(numbered(4)...)
		f.pull(subA, 4)
		if again := f.pull(subA, 10); len(again) != 2 {
			t.Fatalf("%v", bodies(again))
		}
		if n := f.srv.Redeliver(subA, func(m *pubsubpb.PubsubMessage) bool { return string(m.Data) == "3" }); n < 1 {
			t.Fatalf("%d redelivered", n)
		}
		if s := f.srv.Stats(subA); s.Duplicated < 4 || s.Redelivered != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestLeasesCanBeExpiredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(3)...)
		got := f.pull(subA, 2)
		if n := f.srv.ExpireAll(subA); n != 2 {
			t.Fatalf("%d expired", n)
		}
		must(t, f.ack(subA, ids(got)...))
		if s := f.srv.Stats(subA); s.Expired != 2 || s.LateAfterExpiry != 2 || s.Unacked != 3 {
			t.Fatalf("%+v", s)
		}
	})
}
