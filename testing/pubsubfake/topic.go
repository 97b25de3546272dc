package pubsubfake

import (
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A topic takes messages, keeps those that may be asked for again, and hands
// each to its subscriptions. All of it happens under mu, so every subscription
// sees the messages in the same order.
type topic struct {
	srv  *Server
	name string

	mu        sync.Mutex // taken before subscription.mu
	pb        *pubsubpb.Topic
	subs      []*subscription
	log       []record // in order of publishing
	keepers   int      // subscriptions that need acknowledged messages
	snapshots int      // of subscriptions of this topic, which do too
	deleted   bool
	stats     topicCounts
}

// A record is a stored message with what the server wants to know about it
// without looking inside.
type record struct {
	pb   *pubsubpb.PubsubMessage
	seq  int64 // the message id as a number; rises within a topic
	at   int64 // publish time in Unix nanoseconds
	size int64 // encoded
}

// store gives the messages their ids and the publish time, and hands them on.
// It owns msgs from now on. It returns the ids, or false for a deleted topic.
func (t *topic) store(msgs []*pubsubpb.PubsubMessage, at time.Time) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted {
		return nil, false
	}
	n := len(msgs)
	first := t.srv.ids.Add(int64(n)) - int64(n) + 1
	ids := numberStrings(first, n)
	stamp := timestamppb.New(at)
	records := make([]record, n)
	for i, m := range msgs {
		m.MessageId = ids[i]
		m.PublishTime = stamp
		size := int64(proto.Size(m))
		records[i] = record{pb: m, seq: first + int64(i), at: at.UnixNano(), size: size}
		t.stats.bytes += size
	}
	t.stats.messages += int64(n)
	t.keep(records, at)
	if t.srv.hook.Load() != nil {
		now := t.srv.clock.Now()
		for _, m := range msgs {
			t.srv.emit(Event{Kind: EventPublished, Time: now, Topic: t.name, Message: m})
		}
	}
	for _, sub := range t.subs {
		sub.add(records)
	}
	return ids, true
}

// keep appends to the log where somebody may ask for acknowledged messages.
func (t *topic) keep(records []record, now time.Time) {
	if t.srv.cfg.noHistory {
		if !t.retains() {
			t.log = nil
			return
		}
		t.trim(now)
	}
	t.log = append(t.log, records...)
}

// retains tells whether acknowledged messages are needed.
func (t *topic) retains() bool {
	return t.keepers > 0 || t.snapshots > 0 || t.pb.GetMessageRetentionDuration() != nil
}

// trim drops messages from the front of the log that are older than anyone may
// ask for.
func (t *topic) trim(now time.Time) {
	oldest := now.Add(-maxRetention).UnixNano()
	i := 0
	for i < len(t.log) && t.log[i].at < oldest {
		t.log[i] = record{}
		i++
	}
	t.log = t.log[i:]
}

// numberStrings formats n numbers from first on, with one allocation for all.
func numberStrings(first int64, n int) []string {
	buf := make([]byte, 0, n*11)
	ends := make([]int, n)
	for i := range n {
		buf = strconv.AppendInt(buf, first+int64(i), 10)
		ends[i] = len(buf)
	}
	all := string(buf)
	ids := make([]string, n)
	start := 0
	for i, end := range ends {
		ids[i] = all[start:end]
		start = end
	}
	return ids
}

// attach adds a subscription; it sees messages stored from now on.
func (t *topic) attach(sub *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sub.startSeq = t.srv.ids.Load() + 1
	t.subs = append(t.subs, sub)
	t.recountKeepers()
}

func (t *topic) detach(sub *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.subs {
		if s == sub {
			t.subs = append(t.subs[:i:i], t.subs[i+1:]...)
			break
		}
	}
	t.recountKeepers()
}

// recountKeepers is called with t.mu held whenever a subscription comes, goes
// or changes its settings.
func (t *topic) recountKeepers() {
	n := 0
	for _, s := range t.subs {
		s.mu.Lock()
		if s.pb.GetRetainAckedMessages() {
			n++
		}
		s.mu.Unlock()
	}
	t.keepers = n
}
