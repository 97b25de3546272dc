package pubsubfake

import "time"

// SubscriptionStats counts what a subscription handed out and how it was
// settled. At any moment Delivered = Acked + Nacked + Expired + Revoked +
// Outstanding.
type SubscriptionStats struct {
	// Delivered counts deliveries, repeated ones included.
	Delivered int64 `json:"delivered"`
	// Redelivered counts deliveries of messages that were delivered before.
	Redelivered int64 `json:"redelivered"`
	// Duplicated counts the second deliveries asked for by Duplicate,
	// DuplicateEvery and Redeliver.
	Duplicated int64 `json:"duplicated"`
	// Acked counts deliveries acknowledged in time.
	Acked int64 `json:"acked"`
	// Nacked counts deliveries given back with a deadline of 0.
	Nacked int64 `json:"nacked"`
	// Expired counts deliveries whose lease ran out.
	Expired int64 `json:"expired"`
	// Revoked counts deliveries ended by a seek, or because an earlier message
	// of the same ordering key came back.
	Revoked int64 `json:"revoked"`
	// Reopened counts messages that were acknowledged and are delivered again
	// because an earlier message of the same ordering key came back.
	Reopened int64 `json:"reopened"`
	// ModAcked counts renewals of leases, one for each ack id.
	ModAcked int64 `json:"modacked"`
	// MinRenewals and MaxRenewals are the fewest and the most renewals that a
	// delivery had had when it was acknowledged. 0 while Acked is 0.
	MinRenewals int64 `json:"min_renewals"`
	MaxRenewals int64 `json:"max_renewals"`
	// LateAcks counts ack ids that were not leased any more: LateAfterExpiry +
	// LateAfterAck + LateAfterNack + LateUnknown.
	LateAcks int64 `json:"late_acks"`
	// LateAfterExpiry counts acks of leases that had run out or were revoked.
	LateAfterExpiry int64 `json:"late_after_expiry"`
	// LateAfterAck counts acks of deliveries acknowledged before.
	LateAfterAck int64 `json:"late_after_ack"`
	// LateAfterNack counts acks of deliveries given back before.
	LateAfterNack int64 `json:"late_after_nack"`
	// LateUnknown counts acks of ids of another or a former subscription.
	LateUnknown int64 `json:"late_unknown"`
	// LateModAcks counts ModifyAckDeadline of ids that were not leased.
	LateModAcks int64 `json:"late_modacks"`
	// MalformedAckIDs counts ids that no server can have given.
	MalformedAckIDs int64 `json:"malformed_ack_ids"`
	// Unacked counts the messages not acknowledged, leased or not.
	Unacked int64 `json:"unacked"`
	// UnackedBytes is their encoded size.
	UnackedBytes int64 `json:"unacked_bytes"`
	// OldestUnacked is the publish time of the first of them; zero if none.
	OldestUnacked time.Time `json:"oldest_unacked,omitzero"`
	// Outstanding and PeakOutstanding count leases now and at most.
	Outstanding     int64 `json:"outstanding"`
	PeakOutstanding int64 `json:"peak_outstanding"`
	// OutstandingBytes and PeakOutstandingBytes are their encoded size.
	OutstandingBytes     int64 `json:"outstanding_bytes"`
	PeakOutstandingBytes int64 `json:"peak_outstanding_bytes"`
	// PeakStreamOutstanding is the most that one stream had outstanding.
	PeakStreamOutstanding int64 `json:"peak_stream_outstanding"`
	// DeadLettered counts messages moved to the dead letter topic.
	DeadLettered int64 `json:"dead_lettered"`
	// PastRetention counts messages dropped because they were too old.
	PastRetention int64 `json:"past_retention"`
	// StreamsOpen and StreamsOpened count streams now and ever.
	StreamsOpen   int64 `json:"streams_open"`
	StreamsOpened int64 `json:"streams_opened"`
	// Pulls counts calls of Pull.
	Pulls int64 `json:"pulls"`
}

type lateCounts struct {
	expired, acked, nacked, unknown, malformed int64
}

func (c *lateCounts) count(how ending) {
	switch how {
	case endAcked:
		c.acked++
	case endNacked, endDeadLettered:
		c.nacked++
	case endExpired, endRevoked:
		c.expired++
	default:
		c.unknown++
	}
}

func (c *lateCounts) sum() int64 { return c.expired + c.acked + c.nacked + c.unknown }

type subCounts struct {
	delivered, redelivered, duplicated, acked, nacked, expired, revoked, reopened int64
	modAcked, minRenewals, maxRenewals                                            int64
	late, lateModAcks                                                             lateCounts
	out, outPeak, outBytes, outBytesPeak, streamPeak                              int64
	deadLettered, pastRetention, streamsOpened, pulls                             int64
}

// outstanding notes how many leases there are now.
func (c *subCounts) outstanding(n int, bytes int64) {
	c.out = int64(n)
	c.outPeak = max(c.outPeak, c.out)
	c.outBytes += bytes
	c.outBytesPeak = max(c.outBytesPeak, c.outBytes)
}

func (c *subCounts) ack(e *entry) {
	n := int64(e.renewals)
	if c.acked == 0 || n < c.minRenewals {
		c.minRenewals = n
	}
	c.maxRenewals = max(c.maxRenewals, n)
	c.acked++
}

func (c *subCounts) giveBack(how ending) {
	if how == endExpired {
		c.expired++
	} else {
		c.nacked++
	}
}

// Stats returns the counters of a subscription, by full name. It is zero for
// one that does not exist.
func (s *Server) Stats(name string) SubscriptionStats {
	sub, err := s.subscription(name)
	if err != nil {
		return SubscriptionStats{}
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if !sub.closed {
		sub.due(s.clock.Now())
	}
	c := &sub.counts
	st := SubscriptionStats{
		Delivered: c.delivered, Redelivered: c.redelivered, Duplicated: c.duplicated,
		Acked: c.acked, Nacked: c.nacked, Expired: c.expired, Revoked: c.revoked, Reopened: c.reopened,
		ModAcked: c.modAcked, MinRenewals: c.minRenewals, MaxRenewals: c.maxRenewals,
		LateAcks: c.late.sum(), LateAfterExpiry: c.late.expired, LateAfterAck: c.late.acked,
		LateAfterNack: c.late.nacked, LateUnknown: c.late.unknown,
		LateModAcks:     c.lateModAcks.sum(),
		MalformedAckIDs: c.late.malformed + c.lateModAcks.malformed,
		Unacked:         int64(sub.backlog.len), UnackedBytes: sub.backlog.bytes,
		Outstanding: c.out, PeakOutstanding: c.outPeak,
		OutstandingBytes: c.outBytes, PeakOutstandingBytes: c.outBytesPeak,
		PeakStreamOutstanding: c.streamPeak,
		DeadLettered:          c.deadLettered, PastRetention: c.pastRetention,
		StreamsOpen: int64(len(sub.streams)), StreamsOpened: c.streamsOpened,
		Pulls: c.pulls,
	}
	if e := sub.backlog.head; e != nil {
		st.OldestUnacked = time.Unix(0, e.at).UTC()
	}
	return st
}

// TopicStats counts what was published to a topic.
type TopicStats struct {
	// Messages counts the messages stored, those of the control side and dead
	// letters included.
	Messages int64 `json:"messages"`
	// Bytes is their encoded size.
	Bytes int64 `json:"bytes"`
	// Requests counts publish requests that were stored.
	Requests int64 `json:"requests"`
	// RequestLog lists the first of them; see WithRequestLog.
	RequestLog []PublishRequest `json:"request_log,omitempty"`
}

// A PublishRequest is one publish request that was stored.
type PublishRequest struct {
	// Time is when it was stored.
	Time time.Time `json:"time"`
	// Messages and Bytes are its size; Bytes as the service counts them.
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

type topicCounts struct {
	messages, bytes, requests int64
	log                       []PublishRequest
}

func (t *topic) countRequest(at time.Time, messages, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.requests++
	if len(t.stats.log) < t.srv.cfg.requestLog {
		t.stats.log = append(t.stats.log, PublishRequest{Time: at, Messages: messages, Bytes: bytes})
	}
}

// TopicStats returns the counters of a topic, by full name. It is zero for one
// that does not exist.
func (s *Server) TopicStats(name string) TopicStats {
	t, err := s.topic(name)
	if err != nil {
		return TopicStats{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return TopicStats{
		Messages: t.stats.messages, Bytes: t.stats.bytes, Requests: t.stats.requests,
		RequestLog: append([]PublishRequest(nil), t.stats.log...),
	}
}
