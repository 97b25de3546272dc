package queue

import (
	"context"
	"time"
)

// A Delivery is one message handed over by the broker.
type Delivery[M any] struct {
	Msg M
	// ID is the broker's identity of the message, the same in every redelivery.
	// Empty where the broker has none.
	ID string
	// Key is what deduplication goes by; empty means ID.
	Key string
	// Order is the ordering key of a broker that keeps order; empty: none. When
	// a message is given back, those of its key that follow it in the buffer are
	// too: the broker delivers all of them again, in order.
	Order string
	// Time is the message's event time; zero means the time of receipt.
	Time time.Time
	// Bytes is what the message counts against the byte limit.
	Bytes int
	// Handle is what the connector settles the delivery with. It must be
	// comparable and the delivery's own.
	Handle any
	// Lease is how long this delivery is ours; zero means Config.Lease.
	Lease time.Duration
	// Attempt is the number of this delivery where the broker counts, else 0.
	Attempt int
}

// A Settlement is what a broker is told about a delivery.
type Settlement int

const (
	// Ack: the message's output is durable; forget the message.
	Ack Settlement = iota
	// Nack: the message was emitted, its output is gone; deliver it again.
	Nack
	// Release: the message was never emitted; deliver it again, where possible
	// without counting an attempt.
	Release
)

func (s Settlement) String() string {
	return [...]string{"ack", "nack", "release"}[s]
}

// A Broker is a connector's client as the Reader sees it.
type Broker[M any] interface {
	// Receive takes messages from the broker into in until ctx ends, and
	// reconnects by itself. It ends its goroutines before it returns. An error
	// other than the context's means that nothing will help; it ends the bundle.
	Receive(ctx context.Context, in *Reader[M]) error
	// Settle tells the broker about up to SettleBatch deliveries and returns
	// those that it did not take, after retries within a budget of its own.
	// It is called from several goroutines.
	Settle(ctx context.Context, s Settlement, handles []any) (failed []any, err error)
	// Renew extends leases by step and returns the handles that are lost. It is
	// called only where Config.Lease is set.
	Renew(ctx context.Context, step time.Duration, handles []any) (lost []any, err error)
	// Close ends the clients. Nothing is called afterwards.
	Close() error
}

// SettleBatch is the largest number of handles in one call of Settle or Renew.
const SettleBatch = 1000

type state uint8

const (
	buffered state = iota
	emitted        // in a bundle whose outcome is not known
	settling       // the broker is being told
	gone
)

// A handle is one claim on a message: the last delivery's, or that of a
// duplicate which waits for the same outcome.
type handle struct {
	h     any
	until time.Time // end of its lease; zero: it has none
	lost  bool      // the broker has taken it back
}

// A duplicate is another message of an entry's Key.
type duplicate struct {
	handle
	id string
}

// An entry is a message that the Reader holds.
type entry[M any] struct {
	Delivery[M]
	handle   handle
	extra    []duplicate
	state    state
	how      Settlement // where settling
	received time.Time

	prev, next *entry[M] // in Reader.held
}

// A list chains the entries that a Reader holds.
type list[M any] struct {
	first, last *entry[M]
	n           int
}

func (l *list[M]) add(e *entry[M]) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.n++
}

// remove takes out e, which must be in the list. e forgets its neighbors:
// whoever still holds e would otherwise hold all that was ever received later.
func (l *list[M]) remove(e *entry[M]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.n--
}

func (e *entry[M]) key() string {
	if e.Key != "" {
		return e.Key
	}
	return e.ID
}
