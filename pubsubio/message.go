package pubsubio

import "time"

// A Message is one Pub/Sub message, as read and as written.
//
// On read every field is set that schemaMode and metadataMode ask for; the
// others stay zero, so an option never changes the Go type of the output. On
// write Data, Attributes and OrderingKey are sent, Topic chooses the
// destination where the transform has none, and MessageID comes back in the
// outcome so that it can be matched with its input.
type Message struct {
	// Topic is the destination of a message written by a transform without a
	// topic of its own: an id or a full name (projects/P/topics/T). Empty on read.
	Topic string
	// Data is the body. Pub/Sub has no null body; nil and empty are the same.
	Data []byte
	// Attributes are the message's attributes; nil where it has none.
	Attributes map[string]string
	// MessageID is the id the service gave the message.
	MessageID string
	// PublishTime is the time at which the service took the message.
	PublishTime time.Time
	// OrderingKey groups messages that are delivered in publish order.
	OrderingKey string
	// AckID is the id of this delivery (metadataMode slim and full). It is for
	// display: acknowledging is the source's business.
	AckID string
	// DeliveryAttempt is the number of the delivery where the subscription has
	// a dead-letter policy, else 0.
	DeliveryAttempt int32
	// Fields are the decoded columns of schemaMode dynamic and mixed, or of a
	// user schema, in schema order; nil otherwise.
	Fields []Field
}

// A PublishResult tells that one message was taken by the service.
type PublishResult struct {
	// ID is the MessageID of the input (its id attribute where the transform
	// has one), so that an outcome can be matched with its input.
	ID string
	// Topic is the full name of the topic written to.
	Topic string
	// MessageID is the id the service gave the new message.
	MessageID string
	// Latency runs from just before the batch was handed to the client to its
	// answer. Zero unless PublishLatencyMetrics is set.
	Latency time.Duration
}

// A FailedMessage is a message that could not be written, or one that was read
// and could not be decoded.
type FailedMessage struct {
	// Message is the whole message; on read with its raw body.
	Message Message
	// Reason says what went wrong and names the field, limit or destination.
	Reason string
	// Permanent tells that another try of the same message cannot succeed.
	Permanent bool
	// Unknown tells that no answer came in time: the message may have been
	// published all the same.
	Unknown bool
	// Attempts counts the publish calls that carried the message; 0 when it was
	// refused before sending.
	Attempts int
}
