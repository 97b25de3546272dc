package pubsubfake

import (
	"maps"
	"strconv"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// defaultAttempts is the delivery limit of a dead letter policy that names none.
const defaultAttempts = 5

// A deadLetter is on its way from a subscription to its dead letter topic.
type deadLetter struct {
	topic string
	msg   *pubsubpb.PubsubMessage
}

func (s *subscription) tooOften(e *entry) bool {
	p := s.pb.GetDeadLetterPolicy()
	if p == nil {
		return false
	}
	limit := p.GetMaxDeliveryAttempts()
	if limit == 0 {
		limit = defaultAttempts
	}
	return int32(e.attempts) >= limit
}

func (s *subscription) deadLetterOf(e *entry) deadLetter {
	attributes := maps.Clone(e.pb.GetAttributes())
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes["CloudPubSubDeadLetterSourceSubscription"] = shortName(s.name)
	attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = projectOf(s.name)
	attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = e.pb.GetPublishTime().AsTime().UTC().Format("2006-01-02T15:04:05.999999999-07:00")
	attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = strconv.Itoa(int(e.attempts))
	return deadLetter{
		topic: s.pb.GetDeadLetterPolicy().GetDeadLetterTopic(),
		msg: &pubsubpb.PubsubMessage{
			Data: e.pb.GetData(), Attributes: attributes, OrderingKey: e.pb.GetOrderingKey(),
		},
	}
}

func (s *subscription) takeDead() []deadLetter {
	d := s.dead
	s.dead = nil
	return d
}

// bury publishes dead letters. No lock is held: the topic may be the
// subscription's own. A topic that is gone loses them, as in the service.
func (s *Server) bury(dead []deadLetter) {
	for _, d := range dead {
		s.mu.RLock()
		t := s.topics[d.topic]
		s.mu.RUnlock()
		if t != nil {
			t.store([]*pubsubpb.PubsubMessage{d.msg}, s.clock.Now())
		}
	}
}
