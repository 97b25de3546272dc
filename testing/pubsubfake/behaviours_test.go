//go:build integration

package pubsubfake_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func exactlyOnce(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true }

func retaining(s *pubsubpb.Subscription) { s.RetainAckedMessages = true }

const tooLate = "InvalidArgument EXACTLY_ONCE_ACKID_FAILURE PERMANENT_FAILURE_INVALID_ACK_ID"

var behaviours = []behaviour{
	{name: "publish and pull", run: func(v *visitor) string {
		v.set().send(text("a"), text("b"))
		got := v.take(2)
		return fmt.Sprint(body(got), " ids ", got[0].AckId != got[1].AckId, " attempt ", got[0].DeliveryAttempt)
	}, fake: "ab ids true attempt 0"},
	{name: "later subscription sees later messages", run: func(v *visitor) string {
		_, err := v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: v.topic})
		must(v.T, err)
		v.send(text("a"))
		_, err = v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: v.name, Topic: v.topic})
		must(v.T, err)
		v.send(text("b"))
		return body(v.take(2))
	}, fake: "b"},
	{name: "publish limits", run: publishLimits, fake: "none InvalidArgument, 1000 OK, 1001 InvalidArgument, empty InvalidArgument, 100 attributes OK, 101 attributes InvalidArgument, " +
		"key 256 OK, key 257 InvalidArgument, goog InvalidArgument, value 1024 OK, value 1025 InvalidArgument, ordering key 1024 OK, ordering key 1025 InvalidArgument, two keys InvalidArgument, 10 MB InvalidArgument", emulator: "none InvalidArgument, 1000 OK, 1001 InvalidArgument, empty InvalidArgument, 100 attributes OK, 101 attributes OK, " +
		"key 256 OK, key 257 OK, goog OK, value 1024 OK, value 1025 OK, ordering key 1024 OK, ordering key 1025 OK, two keys OK, 10 MB OK"},
	{name: "unknown topic", run: func(v *visitor) string { return code(v.trySend(text("x"))) }, fake: "NotFound"},
	{name: "illegal names", run: func(v *visitor) string {
		var out []string
		for _, id := range []string{"ab", "1abc", "googx", "a b#"} {
			_, err := v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: v.project + "/topics/" + id})
			out = append(out, code(err))
		}
		return strings.Join(out, " ")
	}, fake: "InvalidArgument InvalidArgument InvalidArgument InvalidArgument"},
	{name: "creating twice and without a topic", run: func(v *visitor) string {
		v.set()
		_, err1 := v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: v.topic})
		_, err2 := v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: v.name, Topic: v.topic})
		_, err3 := v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: v.name + "2", Topic: v.topic + "2"})
		return code(err1) + " " + code(err2) + " " + code(err3)
	}, fake: "AlreadyExists AlreadyExists NotFound"},
	{name: "settings out of range", run: func(v *visitor) string {
		v.set()
		var out []string
		for i, f := range []func(*pubsubpb.Subscription){
			func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 9 },
			func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 601 },
			func(s *pubsubpb.Subscription) { s.MessageRetentionDuration = durationpb.New(9 * time.Minute) },
			func(s *pubsubpb.Subscription) {
				s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: v.topic, MaxDeliveryAttempts: 4}
			},
		} {
			pb := &pubsubpb.Subscription{Name: fmt.Sprint(v.name, i), Topic: v.topic}
			f(pb)
			_, err := v.sub.CreateSubscription(v.ctx, pb)
			out = append(out, code(err))
		}
		return strings.Join(out, " ")
	}, fake: "InvalidArgument InvalidArgument InvalidArgument InvalidArgument", emulator: "OK InvalidArgument InvalidArgument OutOfRange"},
	{name: "filter cannot be changed", run: func(v *visitor) string {
		v.set()
		_, err := v.sub.UpdateSubscription(v.ctx, &pubsubpb.UpdateSubscriptionRequest{
			Subscription: &pubsubpb.Subscription{Name: v.name, Filter: "attributes:a"},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"filter"}},
		})
		return code(err)
	}, fake: "InvalidArgument"},
	{name: "ack", run: func(v *visitor) string {
		v.set().send(text("a"))
		got := v.take(1)
		err1 := v.ack(ids(got)...)
		err2 := v.ack(ids(got)...)
		time.Sleep(11 * time.Second)
		return code(err1) + " again " + code(err2) + " then " + body(v.take(1))
	}, fake: "OK again OK then "},
	{name: "nack", run: func(v *visitor) string {
		v.set().send(text("a"))
		first := v.take(1)
		err := v.modAck(0, ids(first)...)
		again := v.take(1)
		return code(err) + " " + body(again) + " new id " + fmt.Sprint(first[0].AckId != again[0].AckId)
	}, fake: "OK a new id true"},
	{name: "expiry and the late ack", run: func(v *visitor) string {
		v.set().send(text("a"))
		first := v.take(1)
		begin := time.Now()
		again := v.takeFor(1, 20*time.Second)
		when := about(time.Since(begin), 9*time.Second, 13*time.Second)
		err := v.ack(ids(first)...)
		_ = v.modAck(0, ids(again)...)
		return fmt.Sprint(body(again), " ", when, ", late ack ", code(err), ", then ", body(v.take(1)))
	}, fake: "a in time, late ack OK, then a"},
	{name: "renewal", run: func(v *visitor) string {
		v.set().send(text("a"))
		first := v.take(1)
		must(v.T, v.modAck(20, ids(first)...))
		begin := time.Now()
		again := v.takeFor(1, 30*time.Second)
		return body(again) + " " + about(time.Since(begin), 19*time.Second, 24*time.Second)
	}, fake: "a in time"},
	{name: "deadline of 601 s", run: func(v *visitor) string {
		v.set().send(text("a"))
		return code(v.modAck(601, ids(v.take(1))...))
	}, fake: "InvalidArgument", emulator: "OK"},
	{name: "malformed ack id", run: func(v *visitor) string {
		v.set()
		return code(v.ack("no id")) + " " + code(v.modAck(10, "no id"))
	}, fake: "InvalidArgument InvalidArgument"},
	{name: "pull on nothing", run: func(v *visitor) string {
		v.set()
		ctx, cancel := context.WithTimeout(v.ctx, 8*time.Second)
		defer cancel()
		_, err := v.sub.Pull(ctx, &pubsubpb.PullRequest{Subscription: v.name, MaxMessages: 1})
		_, err2 := v.sub.Pull(v.ctx, &pubsubpb.PullRequest{Subscription: v.name})
		return code(err) + ", max 0: " + code(err2)
	}, fake: "OK, max 0: InvalidArgument"},
	{name: "retry policy", run: func(v *visitor) string {
		v.set(func(s *pubsubpb.Subscription) {
			s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(3 * time.Second), MaximumBackoff: durationpb.New(4 * time.Second)}
		}).send(text("a"))
		must(v.T, v.modAck(0, ids(v.take(1))...))
		begin := time.Now()
		got := v.takeFor(1, 10*time.Second)
		return body(got) + " " + about(time.Since(begin), 2900*time.Millisecond, 6*time.Second)
	}, fake: "a in time", emulator: "a too early"},
	{name: "stream delivers, acks and nacks", run: func(v *visitor) string {
		v.set().send(text("a"), text("b"))
		st := v.stream(&pubsubpb.StreamingPullRequest{})
		resps, err := listen(st, time.Second)
		must(v.T, err)
		got := received(resps)
		must(v.T, st.Send(&pubsubpb.StreamingPullRequest{
			AckIds: []string{got[0].AckId}, ModifyDeadlineAckIds: []string{got[1].AckId}, ModifyDeadlineSeconds: []int32{0},
		}))
		again, err := st.Recv()
		must(v.T, err)
		return body(got) + " " + bodies(again.ReceivedMessages)[0]
	}, fake: "ab b"},
	{name: "stream properties", run: func(v *visitor) string {
		v.set(exactlyOnce, ordered).send(keyed("k", "a"))
		resps, err := listen(v.stream(&pubsubpb.StreamingPullRequest{ProtocolVersion: 1}), time.Second)
		must(v.T, err)
		p := resps[len(resps)-1].GetSubscriptionProperties()
		return fmt.Sprint("exactly once ", p.GetExactlyOnceDeliveryEnabled(), " ordered ", p.GetMessageOrderingEnabled())
	}, fake: "exactly once true ordered true"},
	{name: "stream says hello", run: func(v *visitor) string {
		v.set()
		resps, err := listen(v.stream(&pubsubpb.StreamingPullRequest{ProtocolVersion: 1}), 2*time.Second)
		must(v.T, err)
		return fmt.Sprint(len(resps))
	}, fake: "1", emulator: "0"},
	{name: "stream ping", run: func(v *visitor) string {
		v.set()
		st := v.stream(&pubsubpb.StreamingPullRequest{ProtocolVersion: 1})
		time.Sleep(500 * time.Millisecond)
		for range 3 {
			must(v.T, st.Send(&pubsubpb.StreamingPullRequest{}))
		}
		resps, err := listen(st, 2*time.Second)
		must(v.T, err)
		return fmt.Sprint("answered ", len(resps) >= 3)
	}, fake: "answered true", emulator: "answered false"},
	{name: "stream flow control", run: func(v *visitor) string {
		v.set().send(numbered(30)...)
		resps, err := listen(v.stream(&pubsubpb.StreamingPullRequest{MaxOutstandingMessages: 5}), 2*time.Second)
		must(v.T, err)
		return fmt.Sprint(len(received(resps)))
	}, fake: "5", emulator: "30"},
	{name: "stream batches", run: func(v *visitor) string {
		v.set().send(numbered(400)...)
		resps, err := listen(v.stream(&pubsubpb.StreamingPullRequest{}), 2*time.Second)
		must(v.T, err)
		most := 0
		for _, r := range resps {
			most = max(most, len(r.ReceivedMessages))
		}
		return fmt.Sprint("hundreds at once ", most > 100)
	}, fake: "hundreds at once true", emulator: "hundreds at once false"},
	{name: "stream agreements", run: streamAgreements, fake: "deadline 9 InvalidArgument, limit again InvalidArgument, subscription again InvalidArgument, malformed id InvalidArgument, negative InvalidArgument", emulator: "deadline 9 InvalidArgument, limit again OK, subscription again InvalidArgument, malformed id InvalidArgument, negative InvalidArgument"},
	{name: "deleting a subscription ends its stream", run: func(v *visitor) string {
		v.set()
		st := v.stream(&pubsubpb.StreamingPullRequest{})
		time.AfterFunc(500*time.Millisecond, func() {
			_ = v.sub.DeleteSubscription(v.ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: v.name})
		})
		_, err := listen(st, 5*time.Second)
		return code(err)
	}, fake: "NotFound"},
	{name: "deleting a topic", run: func(v *visitor) string {
		v.set().send(text("a"))
		must(v.T, v.pub.DeleteTopic(v.ctx, &pubsubpb.DeleteTopicRequest{Topic: v.topic}))
		pb, err := v.sub.GetSubscription(v.ctx, &pubsubpb.GetSubscriptionRequest{Subscription: v.name})
		must(v.T, err)
		return pb.Topic + " " + body(v.take(1))
	}, fake: "_deleted-topic_ a"},
	{name: "detaching", run: func(v *visitor) string {
		v.set().send(text("a"))
		_, err1 := v.pub.DetachSubscription(v.ctx, &pubsubpb.DetachSubscriptionRequest{Subscription: v.name})
		_, err2 := v.sub.Pull(v.ctx, &pubsubpb.PullRequest{Subscription: v.name, MaxMessages: 1, ReturnImmediately: true})
		return code(err1) + " " + code(err2)
	}, fake: "OK FailedPrecondition", emulator: "Unimplemented OK"},
	{name: "filter", run: func(v *visitor) string {
		v.set(func(s *pubsubpb.Subscription) { s.Filter = `attributes.k = "1"` }).send(attribute("k", "1"), attribute("k", "2"))
		return fmt.Sprint(len(v.take(2)))
	}, fake: "1", emulator: "2"},
	{name: "bad filter", run: func(v *visitor) string {
		v.set()
		_, err := v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: v.name + "2", Topic: v.topic, Filter: "this is none"})
		return code(err)
	}, fake: "InvalidArgument", emulator: "OK"},
	{name: "order of a key", run: func(v *visitor) string {
		v.set(ordered)
		for i := range 5 {
			v.send(keyed("k", fmt.Sprint(i)))
		}
		var out string
		for range 5 {
			got := v.take(1)
			out += body(got)
			must(v.T, v.ack(ids(got)...))
		}
		return out
	}, fake: "01234"},
	{name: "second batch of a key before the first is acked", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"))
		v.take(1)
		return body(v.takeFor(1, time.Second))
	}, fake: ""},
	{name: "nack of all messages of a key", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		must(v.T, v.modAck(0, ids(v.take(3))...))
		return body(v.takeFor(3, 8*time.Second))
	}, fake: "123"},
	{name: "nack of the first message of a key", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		must(v.T, v.modAck(0, v.take(3)[0].AckId))
		return inOrder(body(v.takeFor(3, 14*time.Second)), "123")
	}, fake: "in order", emulator: "not in order"},
	{name: "nack of a later message of a key", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := v.take(3)
		must(v.T, v.ack(got[0].AckId))
		must(v.T, v.modAck(0, got[1].AckId))
		return inOrder(body(v.takeFor(2, 14*time.Second)), "23")
	}, fake: "in order", emulator: "not in order"},
	{name: "nack of a message of a key whose next one is acked", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := v.take(3)
		must(v.T, v.ack(got[0].AckId, got[2].AckId))
		must(v.T, v.modAck(0, got[1].AckId))
		return inOrder(body(v.takeFor(2, 14*time.Second)), "23")
	}, fake: "in order", emulator: "not in order"},
	{name: "nack of a message of a key behind one that is open", run: func(v *visitor) string {
		v.set(ordered).send(keyed("k", "1"), keyed("k", "2"), keyed("k", "3"))
		got := v.take(3)
		must(v.T, v.modAck(0, got[1].AckId))
		return "early " + body(v.takeFor(2, 2*time.Second))
	}, fake: "early "},
	{name: "dead letter", run: deadLetter, fake: "attempts 1,2,3,4,5, moved x: a=b DeliveryCount=5 Subscription=sub-a SubscriptionProject=true TopicPublishTime=true, left "},
	{name: "snapshot and seek to it", run: func(v *visitor) string {
		v.set().send(text("a"))
		must(v.T, v.ack(ids(v.take(1))...))
		v.send(text("b"))
		name := v.project + "/snapshots/snap"
		_, err := v.sub.CreateSnapshot(v.ctx, &pubsubpb.CreateSnapshotRequest{Name: name, Subscription: v.name})
		must(v.T, err)
		_, again := v.sub.CreateSnapshot(v.ctx, &pubsubpb.CreateSnapshotRequest{Name: name, Subscription: v.name})
		v.send(text("c"))
		must(v.T, v.ack(ids(v.take(2))...))
		to := &pubsubpb.SeekRequest{Subscription: v.name, Target: &pubsubpb.SeekRequest_Snapshot{Snapshot: name}}
		_, err = v.sub.Seek(v.ctx, to)
		must(v.T, err)
		got := body(v.take(3))
		must(v.T, v.sub.DeleteSnapshot(v.ctx, &pubsubpb.DeleteSnapshotRequest{Snapshot: name}))
		_, gone := v.sub.Seek(v.ctx, to)
		return got + " again " + code(again) + " gone " + code(gone)
	}, fake: "bc again AlreadyExists gone NotFound"},
	{name: "seek back, acked messages retained", run: func(v *visitor) string { return seekBack(v, retaining) }, fake: "bc"},
	{name: "seek back, acked messages not retained", run: func(v *visitor) string { return seekBack(v) }, fake: "c"},
	{name: "seek to the future", run: func(v *visitor) string {
		v.set().send(text("a"))
		_, err := v.sub.Seek(v.ctx, &pubsubpb.SeekRequest{Subscription: v.name, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Now().Add(time.Hour))}})
		must(v.T, err)
		v.send(text("b"))
		return body(v.take(2))
	}, fake: "b"},
	{name: "seek ends leases", run: func(v *visitor) string {
		v.set(exactlyOnce).send(text("a"))
		got := v.take(1)
		_, err := v.sub.Seek(v.ctx, &pubsubpb.SeekRequest{Subscription: v.name, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(time.Now().Add(-time.Hour))}})
		must(v.T, err)
		return body(v.take(1)) + " old id " + failedIDs(v.ack(ids(got)...))
	}, fake: "a old id InvalidArgument EXACTLY_ONCE_ACKID_FAILURE PERMANENT_FAILURE_INVALID_ACK_ID"},
	{name: "exactly once: ids that are too late", run: func(v *visitor) string {
		v.set(exactlyOnce).send(text("a"), text("b"))
		got := v.take(2)
		must(v.T, v.modAck(60, got[1].AckId))
		again := v.takeFor(1, 20*time.Second)
		return fmt.Sprint("redelivered ", body(again), "; ack ", failedIDs(v.ack(got[0].AckId, got[1].AckId)), "; again ", failedIDs(v.ack(got[1].AckId)), "; modack ", failedIDs(v.modAck(10, got[0].AckId)))
	}, fake: "redelivered a; ack " + tooLate + "; again " + tooLate + "; modack " + tooLate},
	{name: "exactly once: expired, but not redelivered yet", run: func(v *visitor) string {
		v.set(exactlyOnce).send(text("a"))
		got := v.take(1)
		time.Sleep(12 * time.Second)
		return failedIDs(v.ack(ids(got)...))
	}, fake: tooLate, emulator: "OK"},
	{name: "exactly once: malformed id", run: func(v *visitor) string {
		v.set(exactlyOnce)
		return failedIDs(v.ack("no id"))
	}, fake: tooLate, emulator: "InvalidArgument  "},
	{name: "schema: JSON", run: func(v *visitor) string {
		return schemaOutcomes(v, pubsubpb.Encoding_JSON, map[string]string{
			"1 good": `{"name":"x","n":null}`, "2 branch": `{"name":"x","n":{"long":7}}`, "3 bare branch": `{"name":"x","n":7}`, "4 wrong type": `{"name":1,"n":null}`,
			"5 default left out": `{"name":"x"}`, "6 unknown field": `{"name":"x","n":null,"z":1}`, "7 no JSON": `[`, "8 two": `{"name":"x","n":null}{}`,
		})
	}, fake: "marked true JSON true, 1 good OK, 2 branch OK, 3 bare branch InvalidArgument, 4 wrong type InvalidArgument, 5 default left out InvalidArgument, 6 unknown field OK, 7 no JSON InvalidArgument, 8 two OK"},
	{name: "schema: binary", run: func(v *visitor) string {
		return schemaOutcomes(v, pubsubpb.Encoding_BINARY, map[string]string{
			"1 good": "\x02x\x00", "2 too short": "\x02x", "3 too long": "\x02x\x00\x00", "4 no branch": "\x02x\x06",
		})
	}, fake: "marked true BINARY true, 1 good OK, 2 too short InvalidArgument, 3 too long OK, 4 no branch InvalidArgument"},
	{name: "schema: definitions", run: func(v *visitor) string {
		create := func(id, def string) error {
			_, err := v.sch.CreateSchema(v.ctx, &pubsubpb.CreateSchemaRequest{Parent: v.project, SchemaId: id, Schema: &pubsubpb.Schema{Type: pubsubpb.Schema_AVRO, Definition: def}})
			return err
		}
		commit := func(def string) error {
			_, err := v.sch.CommitSchema(v.ctx, &pubsubpb.CommitSchemaRequest{Name: v.project + "/schemas/one", Schema: &pubsubpb.Schema{Name: v.project + "/schemas/one", Type: pubsubpb.Schema_AVRO, Definition: def}})
			return err
		}
		return fmt.Sprint("good ", code(create("one", schemaV1)), ", again ", code(create("one", schemaV1)), ", bad ", code(create("two", "{")),
			", commit ", code(commit(schemaV2)), ", incompatible ", code(commit(schemaV3)))
	}, fake: "good OK, again AlreadyExists, bad InvalidArgument, commit OK, incompatible InvalidArgument", emulator: "good OK, again AlreadyExists, bad InvalidArgument, commit OK, incompatible OK"},
	{name: "schema: revision of a message", run: schemaRevisions, fake: "old first, new second, deleted NotFound _deleted-schema_"},
}

func inOrder(got, want string) string {
	if got == want {
		return "in order"
	}
	return "not in order"
}

func publishLimits(v *visitor) string {
	v.set()
	many := func(n int) *pubsubpb.PubsubMessage {
		m := &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: map[string]string{}}
		for i := range n {
			m.Attributes[fmt.Sprint(i)] = "v"
		}
		return m
	}
	one := func(m *pubsubpb.PubsubMessage) []*pubsubpb.PubsubMessage { return []*pubsubpb.PubsubMessage{m} }
	var out []string
	for _, c := range []struct {
		name string
		msgs []*pubsubpb.PubsubMessage
	}{
		{"none", nil},
		{"1000", numbered(1000)},
		{"1001", numbered(1001)},
		{"empty", one(&pubsubpb.PubsubMessage{})},
		{"100 attributes", one(many(100))},
		{"101 attributes", one(many(101))},
		{"key 256", one(attribute(strings.Repeat("k", 256), "v"))},
		{"key 257", one(attribute(strings.Repeat("k", 257), "v"))},
		{"goog", one(attribute("googx", "v"))},
		{"value 1024", one(attribute("k", strings.Repeat("v", 1024)))},
		{"value 1025", one(attribute("k", strings.Repeat("v", 1025)))},
		{"ordering key 1024", one(keyed(strings.Repeat("k", 1024), "x"))},
		{"ordering key 1025", one(keyed(strings.Repeat("k", 1025), "x"))},
		{"two keys", []*pubsubpb.PubsubMessage{keyed("a", "x"), keyed("b", "x")}},
		{"10 MB", one(text(strings.Repeat("x", 10_000_000)))},
	} {
		out = append(out, c.name+" "+code(v.trySend(c.msgs...)))
	}
	return strings.Join(out, ", ")
}

func streamAgreements(v *visitor) string {
	v.set()
	var out []string
	try := func(name string, first, second *pubsubpb.StreamingPullRequest) {
		st := v.stream(first)
		if second != nil {
			time.Sleep(200 * time.Millisecond)
			must(v.T, st.Send(second))
		}
		_, err := listen(st, 1500*time.Millisecond)
		out = append(out, name+" "+code(err))
	}
	try("deadline 9", &pubsubpb.StreamingPullRequest{StreamAckDeadlineSeconds: 9}, nil)
	try("limit again", &pubsubpb.StreamingPullRequest{}, &pubsubpb.StreamingPullRequest{MaxOutstandingMessages: 5})
	try("subscription again", &pubsubpb.StreamingPullRequest{}, &pubsubpb.StreamingPullRequest{Subscription: v.name})
	try("malformed id", &pubsubpb.StreamingPullRequest{}, &pubsubpb.StreamingPullRequest{AckIds: []string{"no id"}})
	try("negative", &pubsubpb.StreamingPullRequest{}, &pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: []string{"1-0-1"}, ModifyDeadlineSeconds: []int32{-1}})
	return strings.Join(out, ", ")
}

func deadLetter(v *visitor) string {
	dead := v.project + "/topics/dead"
	_, err := v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: dead})
	must(v.T, err)
	v.set(func(s *pubsubpb.Subscription) {
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 5}
	})
	deadSub := v.project + "/subscriptions/dead"
	_, err = v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: deadSub, Topic: dead})
	must(v.T, err)
	v.send(&pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: map[string]string{"a": "b"}})
	var attempts []string
	for range 7 {
		got := v.take(1)
		if len(got) == 0 {
			break
		}
		attempts = append(attempts, fmt.Sprint(got[0].DeliveryAttempt))
		must(v.T, v.modAck(0, ids(got)...))
	}
	left := body(v.take(1))
	v.name = deadSub
	moved := v.take(1)
	if len(moved) == 0 {
		return "attempts " + strings.Join(attempts, ",") + ", nothing moved"
	}
	const p = "CloudPubSubDeadLetterSource"
	a := moved[0].Message.Attributes
	return fmt.Sprintf("attempts %s, moved %s: a=%s DeliveryCount=%s Subscription=%s SubscriptionProject=%t TopicPublishTime=%t, left %s",
		strings.Join(attempts, ","), body(moved), a["a"], a[p+"DeliveryCount"], a[p+"Subscription"],
		"projects/"+a[p+"SubscriptionProject"] == v.project, a[p+"TopicPublishTime"] != "", left)
}

func seekBack(v *visitor, settings ...func(*pubsubpb.Subscription)) string {
	v.set(settings...).send(text("a"))
	time.Sleep(200 * time.Millisecond)
	at := time.Now()
	time.Sleep(200 * time.Millisecond)
	v.send(text("b"))
	must(v.T, v.ack(ids(v.take(2))...))
	v.send(text("c"))
	_, err := v.sub.Seek(v.ctx, &pubsubpb.SeekRequest{Subscription: v.name, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(at)}})
	must(v.T, err)
	return body(v.take(3))
}

// schemaTopic makes the topic with the schema and returns its first revision.
func (v *visitor) schemaTopic(enc pubsubpb.Encoding) string {
	s, err := v.sch.CreateSchema(v.ctx, &pubsubpb.CreateSchemaRequest{Parent: v.project, SchemaId: "one", Schema: &pubsubpb.Schema{Type: pubsubpb.Schema_AVRO, Definition: schemaV1}})
	must(v.T, err)
	_, err = v.pub.CreateTopic(v.ctx, &pubsubpb.Topic{Name: v.topic, SchemaSettings: &pubsubpb.SchemaSettings{Schema: v.project + "/schemas/one", Encoding: enc}})
	must(v.T, err)
	_, err = v.sub.CreateSubscription(v.ctx, &pubsubpb.Subscription{Name: v.name, Topic: v.topic})
	must(v.T, err)
	return s.RevisionId
}

func schemaOutcomes(v *visitor, enc pubsubpb.Encoding, msgs map[string]string) string {
	rev := v.schemaTopic(enc)
	var out []string
	for _, name := range sortedKeys(msgs) {
		out = append(out, name+" "+code(v.trySend(text(msgs[name]))))
	}
	a := v.take(1)[0].Message.Attributes
	return fmt.Sprintf("marked %t %s %t, %s", a["googclient_schemaname"] == v.project+"/schemas/one", a["googclient_schemaencoding"],
		a["googclient_schemarevisionid"] == rev, strings.Join(out, ", "))
}

func schemaRevisions(v *visitor) string {
	first := v.schemaTopic(pubsubpb.Encoding_JSON)
	name := v.project + "/schemas/one"
	s, err := v.sch.CommitSchema(v.ctx, &pubsubpb.CommitSchemaRequest{Name: name, Schema: &pubsubpb.Schema{Name: name, Type: pubsubpb.Schema_AVRO, Definition: schemaV2}})
	must(v.T, err)
	v.send(text(`{"name":"old","n":null}`))
	v.send(text(`{"name":"new","n":null,"more":""}`))
	names := map[string]string{first: "first", s.RevisionId: "second"}
	of := map[string]string{}
	for _, m := range v.take(2) {
		of[string(m.Message.Data)[9:12]] = names[m.Message.Attributes["googclient_schemarevisionid"]]
	}
	must(v.T, v.sch.DeleteSchema(v.ctx, &pubsubpb.DeleteSchemaRequest{Name: name}))
	gone := v.trySend(text(`{"name":"old","n":null}`))
	topic, err := v.pub.GetTopic(v.ctx, &pubsubpb.GetTopicRequest{Topic: v.topic})
	must(v.T, err)
	return fmt.Sprintf("old %s, new %s, deleted %s %s", of["old"], of["new"], code(gone), topic.SchemaSettings.GetSchema())
}
