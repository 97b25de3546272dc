package pubsubfake_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func ordered(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true }

func (f *fixture) wantBodies(msgs []*pubsubpb.ReceivedMessage, want ...string) {
	f.Helper()
	if got := bodies(msgs); !slices.Equal(got, want) {
		f.Fatalf("got %q, want %q", got, want)
	}
}

func TestOneBatchOfAnOrderingKeyIsOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, ordered)
		f.publish(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		f.publish(text("a"))
		f.publish(keyed("l", "4"))
		first := f.pull(subA, 2)
		f.wantBodies(first, "1", "2")
		rest := f.pull(subA, 10)
		f.wantBodies(rest, "4", "a")
		must(t, f.ack(subA, first[1].AckId))
		f.wantBodies(f.pull(subA, 10))
		must(t, f.ack(subA, first[0].AckId))
		f.wantBodies(f.pull(subA, 10), "3")
	})
}

func TestNackedMessageOfAKeyTakesTheLaterOnesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, ordered)
		f.publish(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"), keyed("k", "4"))
		got := f.pull(subA, 3)
		must(t, f.ack(subA, got[0].AckId, got[2].AckId))
		must(t, f.modAck(subA, 0, got[1].AckId))
		again := f.pull(subA, 10)
		f.wantBodies(again, "2", "3", "4")
		must(t, f.ack(subA, ids(again)...))
		s := f.srv.Stats(subA)
		if s.Unacked != 0 || s.Reopened != 1 || s.Acked != 5 || s.Nacked != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestExpiredMessageOfAKeyTakesTheLaterOnesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, ordered)
		f.publish(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		got := f.recv(st, 3)
		must(t, f.modAck(subA, 60, got[1].AckId, got[2].AckId))
		time.Sleep(10 * time.Second)
		f.wantBodies(f.recv(st, 3), "1", "2", "3")
		if s := f.srv.Stats(subA); s.Expired != 1 || s.Revoked != 2 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestFilters(t *testing.T) {
	attrs := []map[string]string{
		{"n": "0"},
		{"n": "1", "name": "com"},
		{"n": "2", "name": "org"},
		{"n": "3", "name": "compile", "lang": "en"},
		{"n": "4", "iana.org/x": "y\"z"},
	}
	for filter, want := range map[string]string{
		`attributes:name`:                                                   "123",
		`NOT attributes:name`:                                               "04",
		`-attributes:name`:                                                  "04",
		`attributes.name = "com"`:                                           "1",
		`attributes.name != "com"`:                                          "0234",
		`hasPrefix(attributes.name, "com")`:                                 "13",
		`attributes."iana.org/x" = "y\"z"`:                                  "4",
		`attributes:name AND NOT attributes:lang`:                           "12",
		`attributes.name = "com" OR attributes.name = "org"`:                "12",
		`attributes:name AND (attributes:lang OR attributes.name = "org")`:  "23",
		`NOT (attributes:name OR attributes:"iana.org/x")`:                  "0",
		`attributes:name AND attributes:lang AND attributes.lang != "fr"  `: "3",
	} {
		t.Run(filter, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, func(s *pubsubpb.Subscription) { s.Filter = filter })
				var msgs []*pubsubpb.PubsubMessage
				for _, a := range attrs {
					msgs = append(msgs, &pubsubpb.PubsubMessage{Attributes: a})
				}
				f.publish(msgs...)
				got := ""
				for _, m := range f.pull(subA, 10) {
					got += m.Message.Attributes["n"]
				}
				if got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
			})
		})
	}
}

func TestBadFiltersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		for _, filter := range []string{
			`name = "x"`, `attributes.name`, `attributes.name = x`, `attributes.name = "x`, `(attributes:name`,
			`attributes:a AND attributes:b OR attributes:c`, `hasPrefix(attributes.name)`, `attributes:a attributes:b`,
			`attributes.a < "1"`, `NOT`, fmt.Sprintf(`attributes.a = "%300d"`, 1),
		} {
			_, err := f.sub.CreateSubscription(f.ctx, &pubsubpb.Subscription{Name: subB, Topic: topicA, Filter: filter})
			f.wantCode(err, codes.InvalidArgument)
		}
	})
}

func TestSeekToATimeReplaysRetainedMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		settings func(*pubsubpb.Subscription)
		topic    time.Duration
		want     []string
	}{
		"nothing retained":    {nil, 0, []string{"3"}},
		"retain_acked":        {func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true }, 0, []string{"2", "3"}},
		"retained by a topic": {nil, time.Hour, []string{"2", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, tc.settings, pubsubfake.WithoutHistory())
				if tc.topic > 0 {
					_, err := f.pub.UpdateTopic(f.ctx, &pubsubpb.UpdateTopicRequest{
						Topic:      &pubsubpb.Topic{Name: topicA, MessageRetentionDuration: durationpb.New(tc.topic)},
						UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"message_retention_duration"}},
					})
					must(t, err)
				}
				f.publish(text("1"))
				time.Sleep(time.Second)
				at := time.Now()
				f.publish(text("2"))
				must(t, f.ack(subA, ids(f.pull(subA, 10))...))
				f.publish(text("3"))
				_, err := f.sub.Seek(f.ctx, seekTime(at))
				must(t, err)
				f.wantBodies(f.pull(subA, 10), tc.want...)
			})
		})
	}
}

func seekTime(at time.Time) *pubsubpb.SeekRequest {
	return &pubsubpb.SeekRequest{Subscription: subA, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(at)}}
}

func TestSeekToTheFuturePurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(5)...)
		leased := f.pull(subA, 2)
		_, err := f.sub.Seek(f.ctx, seekTime(time.Now().Add(time.Hour)))
		must(t, err)
		if s := f.srv.Stats(subA); s.Unacked != 0 || s.Outstanding != 0 || s.Revoked != 2 {
			t.Fatalf("%+v", s)
		}
		must(t, f.ack(subA, ids(leased)...))
		f.publish(text("later"))
		f.wantBodies(f.pull(subA, 10), "later")
	})
}

func TestBackDatedMessagesTakePartInSeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		now := time.Now()
		for i, age := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
			_, err := f.srv.PublishAt(topicA, now.Add(-age), text(fmt.Sprint(i)))
			must(t, err)
		}
		if got := f.srv.Stats(subA).OldestUnacked; !got.Equal(now.Add(-3 * time.Hour)) {
			t.Fatalf("oldest %v", got)
		}
		_, err := f.sub.Seek(f.ctx, seekTime(now.Add(-150*time.Minute)))
		must(t, err)
		f.wantBodies(f.pull(subA, 10), "1", "2")
	})
}

func TestSnapshotBringsBackItsBacklogAndWhatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithoutHistory())
		f.publish(text("before"))
		must(t, f.ack(subA, ids(f.pull(subA, 1))...))
		f.publish(text("open"))
		name := project + "/snapshots/snap"
		snap, err := f.sub.CreateSnapshot(f.ctx, &pubsubpb.CreateSnapshotRequest{Name: name, Subscription: subA})
		must(t, err)
		if life := time.Until(snap.ExpireTime.AsTime()); life != 7*24*time.Hour {
			t.Fatalf("lives %v", life)
		}
		_, err = f.sub.CreateSnapshot(f.ctx, &pubsubpb.CreateSnapshotRequest{Name: name, Subscription: subA})
		f.wantCode(err, codes.AlreadyExists)
		f.publish(text("after"))
		must(t, f.ack(subA, ids(f.pull(subA, 10))...))
		to := &pubsubpb.SeekRequest{Subscription: subA, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: name}}
		_, err = f.sub.Seek(f.ctx, to)
		must(t, err)
		f.wantBodies(f.pull(subA, 10), "open", "after")
		must(t, f.sub.DeleteSnapshot(f.ctx, &pubsubpb.DeleteSnapshotRequest{Snapshot: name}))
		_, err = f.sub.Seek(f.ctx, to)
		f.wantCode(err, codes.NotFound)
	})
}

func TestOldMessagesAreDroppedAfterRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(10 * time.Minute) })
		f.publish(text("old"))
		time.Sleep(10*time.Minute + time.Second)
		f.publish(text("new"))
		f.wantBodies(f.pull(subA, 10), "new")
		if s := f.srv.Stats(subA); s.PastRetention != 1 || s.Unacked != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestDeadLettersAreMovedWithTheirOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) {
			s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topicB, MaxDeliveryAttempts: 5}
		})
		must(t, f.srv.AddTopic(topicB))
		must(t, f.srv.AddSubscription(subB, topicB))
		f.publish(&pubsubpb.PubsubMessage{Data: []byte("bad"), Attributes: map[string]string{"a": "b"}})
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		for want := int32(1); want <= 5; want++ {
			m := f.recv(st, 1)
			if m[0].DeliveryAttempt != want {
				t.Fatalf("attempt %d, want %d", m[0].DeliveryAttempt, want)
			}
			if want%2 == 0 {
				time.Sleep(10 * time.Second) // an expiry counts as a nack does
			} else {
				must(t, f.modAck(subA, 0, ids(m)...))
			}
		}
		dead := f.pull(subB, 10)
		f.wantBodies(dead, "bad")
		a := dead[0].Message.Attributes
		if a["a"] != "b" || a["CloudPubSubDeadLetterSourceSubscription"] != "sub-a" ||
			a["CloudPubSubDeadLetterSourceSubscriptionProject"] != "fake-project" ||
			a["CloudPubSubDeadLetterSourceDeliveryCount"] != "5" || a["CloudPubSubDeadLetterSourceTopicPublishTime"] == "" {
			t.Fatalf("%v", a)
		}
		if s := f.srv.Stats(subA); s.DeadLettered != 1 || s.Unacked != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestExactlyOnceTellsWhichAckIDsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		f.publish(numbered(2)...)
		got := f.pull(subA, 10)
		must(t, f.modAck(subA, 60, got[1].AckId))
		time.Sleep(10 * time.Second)
		for what, err := range map[string]error{
			"ack":    f.ack(subA, got[0].AckId, got[1].AckId, "junk"),
			"modack": f.modAck(subA, 10, got[0].AckId, "junk"),
		} {
			f.wantCode(err, codes.InvalidArgument)
			api, ok := apierror.FromError(err)
			if !ok || api.Reason() != "EXACTLY_ONCE_ACKID_FAILURE" {
				t.Fatalf("%s: %v", what, err)
			}
			m := api.Metadata()
			if len(m) != 2 || m[got[0].AckId] != "PERMANENT_FAILURE_INVALID_ACK_ID" || m["junk"] == "" {
				t.Fatalf("%s: %v", what, m)
			}
		}
		if s := f.srv.Stats(subA); s.Acked != 1 {
			t.Fatalf("the good id of the request was not acknowledged: %+v", s)
		}
	})
}

func TestExactlyOnceConfirmsOnTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true })
		f.publish(text("x"))
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		id := f.recv(st, 1)[0].AckId
		must(t, st.Send(&pubsubpb.StreamingPullRequest{AckIds: []string{id, "junk"}}))
		resp, err := st.Recv()
		must(t, err)
		c := resp.GetAcknowledgeConfirmation()
		if !slices.Equal(c.GetAckIds(), []string{id}) || !slices.Equal(c.GetInvalidAckIds(), []string{"junk"}) {
			t.Fatalf("%v", resp)
		}
	})
}

func TestSettledForGoodDoesNotComeBackWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) {
			s.EnableMessageOrdering = true
			s.EnableExactlyOnceDelivery = true
		})
		f.publish(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := f.pull(subA, 3)
		must(t, f.ack(subA, got[1].AckId))
		must(t, f.modAck(subA, 0, got[0].AckId))
		again := f.pull(subA, 3)
		f.wantBodies(again, "1", "3")
		must(t, f.ack(subA, ids(again)...))
		if s := f.srv.Stats(subA); s.Unacked != 0 || s.Acked != 3 || s.Reopened != 0 {
			t.Fatalf("%+v", s)
		}
	})
}
