// Package publish sends batches of messages to a broker and says of each
// message what became of it: one batch in, exactly one outcome per message out.
//
// It knows no broker. A connector gives it a function that makes one attempt
// for one batch and a function that says what an error means; this package
// adds the window that bounds what is in flight in the process, time limits,
// retries, order per key and the search for the message that spoils a batch.
package publish

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"
)

// A Batch is sent by one call.
type Batch[M any] struct {
	// Destination is where all of it goes; only Send reads it.
	Destination string
	// Order, where not empty, is a key within the target: its batches are sent
	// one after another, in the order of Submit, through the same client.
	Order string
	// Messages are the batch, in order. They are not copied.
	Messages []M
	// Bytes is its size in the window's measure.
	Bytes int
}

// A Reply is the broker's answer for one message of a batch.
type Reply[R any] struct {
	Value R
	Err   error
}

// A Verdict says what an error means for the messages it came for.
type Verdict struct {
	// Retry: the same call may succeed later.
	Retry bool
	// Unknown: the broker may have taken the messages all the same.
	Unknown bool
	// Blame: the call was refused for what one of its messages holds. A batch is
	// split until that message stands alone.
	Blame bool
	// NotSent: the call did not go out, and is not one of the attempts that
	// carried the messages.
	NotSent bool
}

// An Outcome is what became of one message.
type Outcome[M, R any] struct {
	Message M
	// Value is the broker's answer; the zero value where Err is set.
	Value R
	// Err is nil for a published message, else the last error.
	Err error
	// Permanent: another try of the same message cannot succeed.
	Permanent bool
	// Unknown: no answer came for at least one attempt, so the message may have
	// been published although Err is set.
	Unknown bool
	// Attempts counts the calls that carried the message.
	Attempts int
	// Latency runs from just before the first of these calls to the answer.
	Latency time.Duration
}

// A Policy bounds the attempts for one batch.
type Policy struct {
	// Attempt is the longest time one call may take; then its outcome is
	// unknown. Zero: bounded by Total only.
	Attempt time.Duration
	// Total is the longest time for all calls of a batch, waits included. Zero:
	// bounded by MaxAttempts only.
	Total time.Duration
	// MaxAttempts is the number of calls after which a retryable error is final;
	// at least 1.
	MaxAttempts int
	// FirstWait is the wait after the first retryable error; it doubles up to
	// LastWait. A third of each wait is random.
	FirstWait, LastWait time.Duration
}

// A HeldError is the outcome of a message whose order key is held because an
// earlier message of the key failed for good.
type HeldError struct {
	// Cause is the earlier message's error.
	Cause error
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("held back because an earlier message of its key failed: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *HeldError) Unwrap() error { return e.Cause }

// A Publisher is the way to one target. It has no state of its own: the window,
// the order and the held keys belong to the process and the target, so that any
// number of publishers share them.
type Publisher[M, R any] struct {
	// Target names what the window and the order belong to.
	Target string
	// Clients is the number of clients to spread batches over; at least 1.
	Clients int
	// Window bounds what is in flight to the target, over all publishers of the
	// process; a part of it that is 0 is no bound. A batch that is larger than
	// the window goes alone.
	Window Room
	// Policy bounds the attempts.
	Policy Policy
	// Hold: after a message with an order key failed for good, later ones of the
	// key fail with a HeldError for as long as the process lives. Otherwise the
	// next ones go on.
	Hold bool
	// HoldScope separates the held keys of publishers that should not know of
	// each other's, such as those of different jobs.
	HoldScope string

	// Send makes one attempt through the client with the given index. It returns
	// one reply per message in order, or an error that stands for all of them.
	// It may block until ctx ends, is called from many goroutines, and must not
	// keep the batch.
	Send func(ctx context.Context, client int, b Batch[M]) ([]Reply[R], error)
	// Classify says what an error of Send or of a Reply means.
	Classify func(error) Verdict
}

// room returns what b takes of the window.
func (b Batch[M]) room() Room { return Room{1, len(b.Messages), b.Bytes} }

// clientFor takes the client for b: by hash where order counts, else the one
// with the fewest batches in flight.
func (p *Publisher[M, R]) clientFor(b Batch[M], t *target) int {
	if b.Order != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(b.Order))
		client := int(h.Sum32() % uint32(max(p.Clients, 1)))
		t.take(client)
		return client
	}
	return t.takeLeastBusy(max(p.Clients, 1))
}
