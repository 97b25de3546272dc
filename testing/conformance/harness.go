package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// A Message is a message as the suite sees it, whatever the broker.
type Message struct {
	// Body is the payload. Nil and empty are the same.
	Body []byte
	// Attributes are the headers; nil and empty are the same.
	Attributes map[string]string
	// Key is the key within which order is kept; empty for none.
	Key string
	// ID names the message in the outcomes of a write. On read it is the
	// broker's id where there is one; the suite does not look at it.
	ID string
	// To is another destination than the transform's own, for a write with
	// WriteOptions.PerMessage. Empty is the destination the write belongs to.
	To string
}

// A Failure is a message that was read and could not be decoded.
type Failure struct {
	// Body is the raw payload.
	Body []byte
	// Reason says what is wrong.
	Reason string
}

// An Outcome is what became of one message that was to be written.
type Outcome struct {
	// ID is the message's.
	ID string
	// Failed tells that it was not written, Reason why.
	Failed bool
	Reason string
}

// A Harness is a connector and a broker under test.
type Harness interface {
	// NewDestination makes an empty place that messages can be published to and
	// read from, and removes it at the end of the test.
	NewDestination(t *testing.T, o DestinationOptions) Destination
	// Drain makes every reader of the process stop: nothing more is received,
	// what is in hand is emitted for emitFor and given back then, and the
	// sources end. lift lets readers start again.
	Drain(emitFor time.Duration) (lift func())
	// Wait waits until the readers of a drained job have settled what they held.
	Wait(ctx context.Context) error
	// Close ends the readers of a job that has failed or was cancelled, as the
	// end of the process would: what is not acknowledged is given back.
	Close(ctx context.Context) error
}

// DestinationOptions say what a destination must be able to do.
type DestinationOptions struct {
	// Ordered: messages of one key are delivered in order.
	Ordered bool
}

// A Destination is a topic or queue with its subscription. Methods are called
// from one goroutine at a time.
type Destination interface {
	// Publish stores messages in this order, by other means than the connector.
	Publish(ctx context.Context, msgs ...Message) error
	// Stored returns, in order, all messages that were stored since the
	// destination was made, and leaves those for Read untouched. It waits until
	// there are n or ctx ends; then it returns what there is, more included.
	Stored(ctx context.Context, n int) ([]Message, error)
	// Unacknowledged is how many messages the broker has not seen acknowledged,
	// whether or not somebody holds them. It is called while no job runs and
	// may take as long as a message stays held.
	Unacknowledged(ctx context.Context) (int, error)
	// Read applies the connector's source. messages is a PCollection<Message>,
	// failed a PCollection<Failure>, or not valid where nothing is decoded.
	Read(s beam.Scope, o ReadOptions) (messages, failed beam.PCollection)
	// Write applies the connector's sink to a PCollection<Message> and returns
	// a PCollection<Outcome>.
	Write(s beam.Scope, in beam.PCollection, o WriteOptions) beam.PCollection
}

// ReadOptions are what the suite sets of a source.
type ReadOptions struct {
	// MaxOutstanding bounds what is received and not settled; 0 is the
	// connector's default.
	MaxOutstanding int
	// Decode makes the source decode bodies, see Decoder.
	Decode bool
}

// WriteOptions are what the suite sets of a sink.
type WriteOptions struct {
	// BatchCount is the most messages of a request; 0 is the default.
	BatchCount int
	// PerMessage: each message names its destination.
	PerMessage bool
}

// A Counter is a Destination whose broker tells at any time what it has handed
// out.
type Counter interface {
	// Counts returns the messages not acknowledged now, and the most that were
	// handed out and unsettled at any time.
	Counts() (unacknowledged, peakHandedOut int)
}

// A Dropper cuts every connection of the connector, as a network does.
type Dropper interface{ DropConnections() }

// A Restarter ends the broker and starts it again with what it has stored.
type Restarter interface {
	RestartBroker(ctx context.Context) error
}

// A Slower delays each answer of the broker by d until end is called.
type Slower interface {
	Slow(d time.Duration) (end func())
}

// A Redeliverer delivers again everything that is handed out and not settled,
// and returns how many these are.
type Redeliverer interface{ Redeliver() int }

// A Decoder knows what a source with ReadOptions.Decode takes.
type Decoder interface {
	// Decodable is the i-th of many messages that can be decoded. The Body that
	// Read gives is the raw one.
	Decodable(i int) Message
	// Undecodable is one that cannot.
	Undecodable() Message
}

// A BatchCounter knows the sizes of the write requests that were stored.
type BatchCounter interface{ WriteRequests() []int }

// A ConnectionCounter counts the connector's connections.
type ConnectionCounter interface {
	// Connections returns the most that were open at once, and how many one
	// reader and one writer may have.
	Connections() (peak, allowed int)
}

// An UnknownNamer knows destinations that a message can name and that cannot be
// written to: one that is absent, one whose name is illegal.
type UnknownNamer interface{ UnknownNames() []string }
