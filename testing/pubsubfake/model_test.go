package pubsubfake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

const (
	modelTopic = "projects/model-project/topics/topic"
	modelSub   = "projects/model-project/subscriptions/sub"
)

// A model remembers what a client may know: which messages it has acknowledged
// in time, and which deliveries it holds.
type model struct {
	srv     *Server
	clock   *ManualClock
	ordered bool
	bodies  []string            // published
	acked   map[string]bool     // for good
	held    map[string]delivery // by ack id
}

type delivery struct {
	body string
	key  string
	at   time.Time // when its lease ends
}

// Any sequence of publishing, pulling, acking, nacking, renewing, waiting and
// purging leaves each message either acknowledged or still to be had, and the
// counters add up.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		m := &model{
			srv: New(WithClock(clock)), clock: clock, ordered: rapid.Bool().Draw(t, "ordered"),
			acked: map[string]bool{}, held: map[string]delivery{},
		}
		defer m.srv.Close()
		check(t, m.srv.AddTopic(modelTopic))
		check(t, m.srv.AddSubscription(modelSub, modelTopic, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = m.ordered }))
		t.Repeat(map[string]func(*rapid.T){
			"publish": m.publish,
			"pull":    m.pull,
			"ack":     m.ack,
			"nack":    m.nack,
			"renew":   m.renew,
			"wait":    m.wait,
			"purge":   m.purge,
			"":        m.invariant,
		})
		m.drain(t)
	})
}

func (m *model) publish(t *rapid.T) {
	key := rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key")
	var msgs []*pubsubpb.PubsubMessage
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		body := fmt.Sprintf("%s%05d", key, len(m.bodies))
		m.bodies = append(m.bodies, body)
		msgs = append(msgs, &pubsubpb.PubsubMessage{Data: []byte(body), OrderingKey: key})
	}
	_, err := m.srv.Publish(context.Background(), &pubsubpb.PublishRequest{Topic: modelTopic, Messages: msgs})
	check(t, err)
}

func (m *model) pull(t *rapid.T) {
	resp, err := m.srv.Pull(context.Background(), &pubsubpb.PullRequest{
		Subscription: modelSub, MaxMessages: rapid.Int32Range(1, 4).Draw(t, "max"), ReturnImmediately: true,
	})
	check(t, err)
	last := map[string]string{}
	for _, r := range resp.GetReceivedMessages() {
		d := delivery{string(r.Message.Data), r.Message.OrderingKey, m.clock.Now().Add(10 * time.Second)}
		if m.acked[d.body] && (!m.ordered || d.key == "") {
			t.Fatalf("%s is delivered though acknowledged", d.body)
		}
		if m.ordered && d.key != "" {
			if d.body <= last[d.key] {
				t.Fatalf("%s is delivered behind %s", d.body, last[d.key])
			}
			last[d.key] = d.body
		}
		m.held[r.AckId] = d
	}
}

func (m *model) some(t *rapid.T) []string {
	all := slices.Sorted(maps.Keys(m.held))
	if len(all) == 0 {
		t.Skip("nothing held")
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "ids")
}

func (m *model) ack(t *rapid.T) {
	ids := m.some(t)
	before := m.srv.Stats(modelSub)
	_, err := m.srv.Acknowledge(context.Background(), &pubsubpb.AcknowledgeRequest{Subscription: modelSub, AckIds: ids})
	check(t, err)
	after := m.srv.Stats(modelSub)
	if n := after.Acked + after.LateAcks - before.Acked - before.LateAcks; n != int64(len(ids)) {
		t.Fatalf("%d acks counted of %d", n, len(ids))
	}
	for _, id := range ids {
		d := m.held[id]
		delete(m.held, id)
		// A delivery whose lease is over was late, one before may have been
		// revoked by a purge or with its key: the server's backlog tells.
		if d.at.After(m.clock.Now()) && !m.unacked()[d.body] {
			m.acked[d.body] = true
		}
	}
}

func (m *model) unacked() map[string]bool {
	bodies := map[string]bool{}
	for _, msg := range m.srv.Unacked(modelSub) {
		bodies[string(msg.Data)] = true
	}
	return bodies
}

func (m *model) modify(t *rapid.T, seconds int32) []string {
	ids := m.some(t)
	_, err := m.srv.ModifyAckDeadline(context.Background(), &pubsubpb.ModifyAckDeadlineRequest{Subscription: modelSub, AckIds: ids, AckDeadlineSeconds: seconds})
	check(t, err)
	return ids
}

func (m *model) nack(t *rapid.T) {
	for _, id := range m.modify(t, 0) {
		delete(m.held, id)
	}
}

func (m *model) renew(t *rapid.T) {
	d := rapid.Int32Range(1, 30).Draw(t, "seconds")
	for _, id := range m.modify(t, d) {
		x := m.held[id]
		x.at = m.clock.Now().Add(time.Duration(d) * time.Second)
		m.held[id] = x
	}
}

func (m *model) wait(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second)
}

func (m *model) purge(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "dice") > 0 {
		t.Skip("rarely")
	}
	_, err := m.srv.Seek(context.Background(), &pubsubpb.SeekRequest{
		Subscription: modelSub, Target: &pubsubpb.SeekRequest_Time{Time: timestamppb.New(m.clock.Now().Add(time.Second))},
	})
	check(t, err)
	for _, b := range m.bodies {
		m.acked[b] = true
	}
	clear(m.held)
}

func (m *model) invariant(t *rapid.T) {
	s := m.srv.Stats(modelSub)
	if s.Delivered != s.Acked+s.Nacked+s.Expired+s.Revoked+s.Outstanding {
		t.Fatalf("deliveries and endings do not add up: %+v", s)
	}
	if int(s.Unacked) != len(m.srv.Unacked(modelSub)) || s.Outstanding > s.Unacked {
		t.Fatalf("the backlog does not add up: %+v", s)
	}
	unacked := m.unacked()
	for _, b := range m.bodies {
		if !unacked[b] && !m.acked[b] {
			t.Fatalf("%s is lost", b)
		}
	}
}

// drain reads all that is left and finds the backlog empty.
func (m *model) drain(t *rapid.T) {
	m.clock.Advance(time.Minute)
	for range len(m.bodies) + 1 {
		resp, err := m.srv.Pull(context.Background(), &pubsubpb.PullRequest{Subscription: modelSub, MaxMessages: 100, ReturnImmediately: true})
		check(t, err)
		if len(resp.ReceivedMessages) == 0 {
			break
		}
		req := &pubsubpb.AcknowledgeRequest{Subscription: modelSub}
		for _, r := range resp.ReceivedMessages {
			req.AckIds = append(req.AckIds, r.AckId)
		}
		_, err = m.srv.Acknowledge(context.Background(), req)
		check(t, err)
	}
	if s := m.srv.Stats(modelSub); s.Unacked != 0 || s.Outstanding != 0 || s.UnackedBytes != 0 || s.OutstandingBytes != 0 {
		t.Fatalf("%+v", s)
	}
}

func check(t interface{ Fatal(...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzParseAckID(f *testing.F) {
	f.Add("1-0-1")
	f.Add("1-1z141z3-zzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseAckID(s)
		if !ok {
			return
		}
		if again, ok := parseAckID(id.String()); !ok || again != id {
			t.Fatalf("%q becomes %q", s, id)
		}
	})
}

func FuzzParseFilter(f *testing.F) {
	f.Add(`attributes:a AND NOT (attributes."b" != "c\"" OR hasPrefix(attributes.d, "e"))`)
	f.Fuzz(func(t *testing.T, s string) {
		match, err := parseFilter(s)
		if err != nil || match == nil {
			return
		}
		match(map[string]string{"a": "", "d": "ef"})
	})
}
