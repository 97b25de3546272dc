package pubsubfake

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// AddTopic creates a topic by full name, for tests that need no settings.
func (s *Server) AddTopic(name string) error {
	_, err := s.CreateTopic(context.Background(), &pubsubpb.Topic{Name: name})
	return err
}

// AddSubscription creates a subscription to a topic, both by full name. Each
// of settings may change it before it is checked, as in
//
//	srv.AddSubscription(sub, topic, func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 60 })
func (s *Server) AddSubscription(name, topic string, settings ...func(*pubsubpb.Subscription)) error {
	pb := &pubsubpb.Subscription{Name: name, Topic: topic}
	for _, f := range settings {
		f(pb)
	}
	_, err := s.CreateSubscription(context.Background(), pb)
	return err
}

// PublishAt stores messages with a publish time of the caller's choice, past or
// future, and returns their ids. Limits and schemas are not checked, and no
// publish request is counted. The messages belong to the server from then on.
func (s *Server) PublishAt(topic string, at time.Time, msgs ...*pubsubpb.PubsubMessage) ([]string, error) {
	t, err := s.topic(topic)
	if err != nil {
		return nil, err
	}
	ids, ok := t.store(msgs, at)
	if !ok {
		return nil, fmt.Errorf("pubsubfake: topic %s is deleted", topic)
	}
	return ids, nil
}

// Load stores n messages of size bytes each in a topic, quickly: they share one
// body and have an attribute "n" that counts from 0.
func (s *Server) Load(topic string, n, size int) error {
	body := make([]byte, size)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	return s.LoadFunc(topic, n, func(i int) *pubsubpb.PubsubMessage {
		return &pubsubpb.PubsubMessage{Data: body, Attributes: map[string]string{"n": strconv.Itoa(i)}}
	})
}

// LoadFunc stores n messages made by f, all with the present time. Messages may
// share their data and attributes with each other.
func (s *Server) LoadFunc(topic string, n int, f func(i int) *pubsubpb.PubsubMessage) error {
	for i := 0; i < n; {
		chunk := make([]*pubsubpb.PubsubMessage, 0, min(n-i, 1000))
		for ; len(chunk) < cap(chunk); i++ {
			chunk = append(chunk, f(i))
		}
		if _, err := s.PublishAt(topic, s.clock.Now(), chunk...); err != nil {
			return err
		}
	}
	return nil
}

// Published returns the messages stored in a topic, oldest first; with
// WithoutHistory those that are still kept. They are shared: read only.
func (s *Server) Published(topic string) []*pubsubpb.PubsubMessage {
	t, err := s.topic(topic)
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	msgs := make([]*pubsubpb.PubsubMessage, len(t.log))
	for i, r := range t.log {
		msgs[i] = r.pb
	}
	return msgs
}

// Unacked returns the messages that a subscription has not acknowledged, leased
// or not, in the order in which they were stored. They are shared: read only.
func (s *Server) Unacked(name string) []*pubsubpb.PubsubMessage {
	sub, err := s.subscription(name)
	if err != nil {
		return nil
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	var msgs []*pubsubpb.PubsubMessage
	for e := sub.backlog.head; e != nil; e = e.next {
		msgs = append(msgs, e.pb)
	}
	return msgs
}

// Duplicate makes the n-th deliveries of a subscription, counted from 1 over
// its whole life, happen twice: the message is delivered once more, with a lease
// of its own, whether or not the first delivery is acknowledged.
func (s *Server) Duplicate(name string, nth ...int) {
	s.withSub(name, func(sub *subscription) {
		if sub.dup.nth == nil {
			sub.dup.nth = map[int64]bool{}
		}
		for _, n := range nth {
			sub.dup.nth[int64(n)] = true
		}
	})
}

// DuplicateEvery makes each n-th delivery happen twice; 0 ends that.
func (s *Server) DuplicateEvery(name string, n int) {
	s.withSub(name, func(sub *subscription) { sub.dup.every = int64(n) })
}

// Redeliver delivers every outstanding message for which match returns true
// once more, with a lease of its own, and returns how many these are.
func (s *Server) Redeliver(name string, match func(*pubsubpb.PubsubMessage) bool) int {
	n := 0
	s.withSub(name, func(sub *subscription) {
		for _, e := range sub.leases.slots {
			if e != nil && match(e.pb) {
				sub.redeliver(e)
				n++
			}
		}
		sub.wake()
	})
	return n
}

// ExpireAll ends every lease of a subscription now, as if its time were over,
// and returns how many these were.
func (s *Server) ExpireAll(name string) int {
	n := 0
	var dead []deadLetter
	s.withSub(name, func(sub *subscription) {
		now := s.clock.Now()
		for _, e := range sub.leases.slots {
			if e != nil && e.leased() {
				sub.giveBack(e, endExpired, now)
				n++
			}
		}
		sub.wake()
		sub.arm(now.UnixNano())
		dead = sub.takeDead()
	})
	s.bury(dead)
	return n
}

// CloseStreams ends all open streams of a subscription with a code and a text,
// and returns how many these were. Leases stay.
func (s *Server) CloseStreams(name string, code codes.Code, text string) int {
	n := 0
	s.withSub(name, func(sub *subscription) { n = sub.endStreams(status.New(code, text)) })
	return n
}

// MuteStreams makes all streams of a subscription, open and to come, stay
// connected but silent: no message, no answer to a ping. What clients send is
// still taken. false ends that.
func (s *Server) MuteStreams(name string, mute bool) {
	s.withSub(name, func(sub *subscription) {
		sub.mute = mute
		sub.wake()
	})
}

// StallModAck makes renewals of leases be accepted and counted nowhere, without
// effect; giving messages back still works. false ends that.
func (s *Server) StallModAck(name string, stall bool) {
	s.withSub(name, func(sub *subscription) { sub.noRenew = stall })
}

func (s *Server) withSub(name string, f func(*subscription)) {
	sub, err := s.subscription(name)
	if err != nil {
		return
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	f(sub)
}
