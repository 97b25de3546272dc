package pubsubfake

import (
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// An EventKind says what happened to a message.
type EventKind string

// What can happen to a message. Each delivery ends in exactly one of Acked,
// Nacked, Expired, Revoked or DeadLettered, unless it is still outstanding.
const (
	// EventPublished: stored in a topic.
	EventPublished EventKind = "published"
	// EventDelivered: handed to a stream or a Pull.
	EventDelivered EventKind = "delivered"
	// EventAcked: acknowledged in time.
	EventAcked EventKind = "acked"
	// EventLateAck: an ack id that is not leased (expired, nacked, acked before).
	EventLateAck EventKind = "late_ack"
	// EventNacked: given back with a deadline of 0.
	EventNacked EventKind = "nacked"
	// EventExpired: the lease ran out.
	EventExpired EventKind = "expired"
	// EventRevoked: given back because an earlier message of its ordering key
	// was, or because of a seek.
	EventRevoked EventKind = "revoked"
	// EventRenewed: the lease was given a new deadline.
	EventRenewed EventKind = "renewed"
	// EventDeadLettered: delivered too often and moved to the dead letter topic.
	EventDeadLettered EventKind = "dead_lettered"
)

// An Event is one thing that happened to one message.
type Event struct {
	// Kind says what happened.
	Kind EventKind
	// Time is the server clock's.
	Time time.Time
	// Topic is the full name of the topic; set for EventPublished.
	Topic string
	// Subscription is the full name of the subscription; empty for EventPublished.
	Subscription string
	// Message is shared: read only. Nil for EventLateAck.
	Message *pubsubpb.PubsubMessage
	// AckID is the id of the delivery; empty for EventPublished.
	AckID string
	// Attempt counts the deliveries of this message, from 1.
	Attempt int
}

// OnEvent replaces the hook of WithEventHook while the server runs; nil removes
// it. The same rules hold: f is called with locks held, in order, and must not
// call the Server.
func (s *Server) OnEvent(f func(Event)) {
	if f == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&f)
}

func (s *Server) emit(e Event) {
	if f := s.hook.Load(); f != nil {
		(*f)(e)
	}
}
