package pubsubfake_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func attribute(key, value string) *pubsubpb.PubsubMessage {
	return &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: map[string]string{key: value}}
}

func TestPublishLimits(t *testing.T) {
	many := func(n int) *pubsubpb.PubsubMessage {
		m := &pubsubpb.PubsubMessage{Attributes: map[string]string{}}
		for i := range n {
			m.Attributes[fmt.Sprint(i)] = ""
		}
		return m
	}
	for name, tc := range map[string]struct {
		msgs []*pubsubpb.PubsubMessage
		want codes.Code
		text string
	}{
		"no messages":                {nil, codes.InvalidArgument, "no messages"},
		"1000 messages":              {numbered(1000), codes.OK, ""},
		"1001 messages":              {numbered(1001), codes.InvalidArgument, "1001"},
		"empty message":              {[]*pubsubpb.PubsubMessage{text("x"), {}}, codes.InvalidArgument, "empty"},
		"only an attribute":          {[]*pubsubpb.PubsubMessage{{Attributes: map[string]string{"a": ""}}}, codes.OK, ""},
		"100 attributes":             {[]*pubsubpb.PubsubMessage{many(100)}, codes.OK, ""},
		"101 attributes":             {[]*pubsubpb.PubsubMessage{many(101)}, codes.InvalidArgument, "101"},
		"attribute key of 256":       {[]*pubsubpb.PubsubMessage{attribute(strings.Repeat("k", 256), "")}, codes.OK, ""},
		"attribute key of 257":       {[]*pubsubpb.PubsubMessage{attribute(strings.Repeat("k", 257), "")}, codes.InvalidArgument, "257"},
		"attribute key goog":         {[]*pubsubpb.PubsubMessage{attribute("googx", "")}, codes.InvalidArgument, "goog"},
		"attribute value of 1024":    {[]*pubsubpb.PubsubMessage{attribute("k", strings.Repeat("v", 1024))}, codes.OK, ""},
		"attribute value of 1025":    {[]*pubsubpb.PubsubMessage{attribute("k", strings.Repeat("v", 1025))}, codes.InvalidArgument, "1025"},
		"ordering key of 1024":       {[]*pubsubpb.PubsubMessage{keyed(strings.Repeat("k", 1024), "x")}, codes.OK, ""},
		"ordering key of 1025":       {[]*pubsubpb.PubsubMessage{keyed(strings.Repeat("k", 1025), "x")}, codes.InvalidArgument, "1025"},
		"two ordering keys":          {[]*pubsubpb.PubsubMessage{keyed("a", "x"), keyed("b", "x")}, codes.InvalidArgument, "ordering key"},
		"request of 10,000,000 less": {[]*pubsubpb.PubsubMessage{text(strings.Repeat("x", 9_999_900))}, codes.OK, ""},
		"request of more":            {[]*pubsubpb.PubsubMessage{text(strings.Repeat("x", 9_999_990))}, codes.InvalidArgument, "request_size"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, nil)
				_, err := f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: topicA, Messages: tc.msgs})
				f.wantCode(err, tc.want)
				if err != nil && !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%v does not name %q", err, tc.text)
				}
				want := len(tc.msgs)
				if tc.want != codes.OK {
					want = 0
				}
				if got := len(f.srv.Published(topicA)); got != want {
					t.Errorf("%d messages stored", got)
				}
			})
		})
	}
}

func TestPublishRequestsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithRequestLog(2))
		begin := time.Now()
		for _, n := range []int{50, 20, 1} {
			f.publish(numbered(n)...)
			time.Sleep(time.Second)
		}
		s := f.srv.TopicStats(topicA)
		if s.Requests != 3 || s.Messages != 71 || len(s.RequestLog) != 2 {
			t.Fatalf("%+v", s)
		}
		if r := s.RequestLog[1]; r.Messages != 20 || r.Bytes < 20 || !r.Time.Equal(begin.Add(time.Second)) {
			t.Fatalf("%+v", r)
		}
	})
}

func TestPublishedMessagesHaveIDsAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		got := f.publish(text("a"), text("b"))
		msgs := f.srv.Published(topicA)
		for i, m := range msgs {
			if m.MessageId != got[i] || !m.PublishTime.AsTime().Equal(time.Now()) {
				t.Fatalf("%v, ids %v", m, got)
			}
		}
		if len(msgs) != 2 || got[0] == got[1] {
			t.Fatalf("%v", msgs)
		}
	})
}

func TestHistoryIsLetGoWhereNobodyNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithoutHistory())
		f.publish(text("a"))
		if n := len(f.srv.Published(topicA)); n != 0 {
			t.Fatalf("%d kept", n)
		}
		if n := len(f.srv.Unacked(subA)); n != 1 {
			t.Fatalf("%d unacked", n)
		}
	})
}

func TestUnknownAndIllegalNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		_, err := f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: topicB, Messages: numbered(1)})
		f.wantCode(err, codes.NotFound)
		_, err = f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: project + "/topics/a b#", Messages: numbered(1)})
		f.wantCode(err, codes.InvalidArgument)
		for _, name := range []string{"", "ab", "1abc", "googtopic", "a/b", strings.Repeat("a", 256)} {
			_, err = f.pub.CreateTopic(f.ctx, &pubsubpb.Topic{Name: project + "/topics/" + name})
			f.wantCode(err, codes.InvalidArgument)
		}
		_, err = f.pub.CreateTopic(f.ctx, &pubsubpb.Topic{Name: topicA})
		f.wantCode(err, codes.AlreadyExists)
		_, err = f.sub.CreateSubscription(f.ctx, &pubsubpb.Subscription{Name: subA, Topic: topicA})
		f.wantCode(err, codes.AlreadyExists)
		_, err = f.sub.CreateSubscription(f.ctx, &pubsubpb.Subscription{Name: subB, Topic: topicB})
		f.wantCode(err, codes.NotFound)
	})
}

func TestAdministration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		must(t, f.srv.AddTopic(topicB))
		must(t, f.srv.AddSubscription(subB, topicB))
		var names []string
		it := f.pub.ListTopics(f.ctx, &pubsubpb.ListTopicsRequest{Project: project, PageSize: 1})
		for topic, err := range it.All() {
			must(t, err)
			names = append(names, topic.Name)
		}
		if fmt.Sprint(names) != fmt.Sprint([]string{topicA, topicB}) {
			t.Fatalf("%v", names)
		}
		n := 0
		for _, err := range f.sub.ListSubscriptions(f.ctx, &pubsubpb.ListSubscriptionsRequest{Project: project}).All() {
			must(t, err)
			n++
		}
		for name, err := range f.pub.ListTopicSubscriptions(f.ctx, &pubsubpb.ListTopicSubscriptionsRequest{Topic: topicB}).All() {
			must(t, err)
			if name != subB {
				t.Fatal(name)
			}
			n++
		}
		if n != 3 {
			t.Fatalf("%d subscriptions listed", n)
		}
		got, err := f.sub.UpdateSubscription(f.ctx, &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: subA, AckDeadlineSeconds: 30, Labels: map[string]string{"a": "b"}},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"ack_deadline_seconds"}},
		})
		must(t, err)
		if got.AckDeadlineSeconds != 30 || got.Labels != nil {
			t.Fatalf("%v", got)
		}
		_, err = f.sub.UpdateSubscription(f.ctx, &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: subA, Filter: "attributes:a"},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"filter"}},
		})
		f.wantCode(err, codes.InvalidArgument)
		f.publish(text("kept"))
		must(t, f.pub.DeleteTopic(f.ctx, &pubsubpb.DeleteTopicRequest{Topic: topicA}))
		pb, err := f.sub.GetSubscription(f.ctx, &pubsubpb.GetSubscriptionRequest{Subscription: subA})
		must(t, err)
		if pb.Topic != "_deleted-topic_" {
			t.Fatalf("%v", pb)
		}
		f.wantBodies(f.pull(subA, 1), "kept")
	})
}

func TestDetachedSubscriptionCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		_, err := f.pub.DetachSubscription(f.ctx, &pubsubpb.DetachSubscriptionRequest{Subscription: subA})
		must(t, err)
		_, err = f.sub.Pull(f.ctx, &pubsubpb.PullRequest{Subscription: subA, MaxMessages: 1})
		f.wantCode(err, codes.FailedPrecondition)
		if s := f.srv.Stats(subA); s.Unacked != 0 {
			t.Fatalf("%+v", s)
		}
	})
}
