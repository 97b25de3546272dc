// Package batch is the first half of every sink: it makes batches out of what a
// bundle brings, and, where batches are to be full over bundles, joins what
// bundles leave over.
//
//   - A Chunker lives for one bundle. It gives full chunks back at once, to be
//     published while the bundle goes on, and the remainders at its end.
//   - Coalesce is a stateful DoFn that gathers remainders of many bundles until
//     there is a full batch, or the first of its messages is old enough.
//
// A connector chooses by its batching mode what becomes of a remainder:
// published with the bundle (bundle), sent to Coalesce (exact); in streaming
// mode a chunk of one message is full. The package knows no broker and
// publishes nothing.
//
// Chunks with an order are never sent to Coalesce to wait: a later full chunk
// of the same key would overtake them. They are published with their bundle in
// every mode, so that a key takes one path.
package batch

import (
	"cmp"
	"slices"
	"time"
)

// An Item is a message on its way to a batch.
type Item[T any] struct {
	Value T
	// Time is the element's event time in milliseconds since 1970.
	Time int64
	// Bytes is what it adds to a batch.
	Bytes int
}

// A Chunk is a batch, or a part of one that waits for others.
type Chunk[T any] struct {
	// Destination and Order are the same for all its items: what may not be
	// mixed in a batch.
	Destination, Order string
	// First is when its first item reached the sink, in nanoseconds since 1970.
	First int64
	// Closed: it is published as it is.
	Closed bool
	Items  []Item[T]
}

// MinTime is the earliest event time of its items, in milliseconds.
func (c *Chunk[T]) MinTime() int64 {
	least := c.Items[0].Time
	for _, it := range c.Items[1:] {
		least = min(least, it.Time)
	}
	return least
}

// Bytes is the size of its items together.
func (c *Chunk[T]) Bytes() int {
	n := 0
	for _, it := range c.Items {
		n += it.Bytes
	}
	return n
}

// Limits close a batch. Count is at least 1; Bytes of 0 is no limit, and an
// item larger than Bytes makes a batch of its own.
type Limits struct {
	Count, Bytes int
}

// full tells whether nothing more goes in.
func (l Limits) full(count, bytes int) bool {
	return count >= l.Count || (l.Bytes > 0 && bytes >= l.Bytes)
}

// fits tells whether an item of the size next goes in.
func (l Limits) fits(count, bytes, next int) bool {
	return count == 0 || (count < l.Count && (l.Bytes <= 0 || bytes+next <= l.Bytes))
}

// join packs the items of chunks with the same destination and order into as
// few chunks as the limits allow, oldest items first. All but the last are
// closed, and the last too where it is full; a chunk that is not closed keeps
// the arrival time of its own first item.
func join[T any](chunks []Chunk[T], l Limits) []Chunk[T] {
	slices.SortStableFunc(chunks, func(a, b Chunk[T]) int { return cmp.Compare(a.First, b.First) })
	var out []Chunk[T]
	bytes := 0
	for _, c := range chunks {
		for _, it := range c.Items {
			n := len(out)
			if n == 0 || out[n-1].Closed || !l.fits(len(out[n-1].Items), bytes, it.Bytes) {
				if n > 0 {
					out[n-1].Closed = true
				}
				out = append(out, Chunk[T]{Destination: c.Destination, Order: c.Order, First: c.First})
				n, bytes = n+1, 0
			}
			last := &out[n-1]
			last.Items = append(last.Items, it)
			bytes += it.Bytes
			last.Closed = l.full(len(last.Items), bytes)
		}
	}
	return out
}

// age tells how long a chunk has waited.
func (c *Chunk[T]) age(now time.Time) time.Duration { return now.Sub(time.Unix(0, c.First)) }
