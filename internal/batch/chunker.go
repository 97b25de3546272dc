package batch

import (
	"cmp"
	"slices"
	"time"
)

// maxHeld bounds what a Chunker keeps of a long bundle with many destinations
// or keys; then it gives back everything, full or not.
const maxHeld = 32 << 20

// A Chunker groups the messages of one bundle. It is used by one goroutine.
type Chunker[T any] struct {
	limits Limits
	open   map[group]*growing[T]
	begun  int // chunks so far
	held   int // bytes of all open chunks
	usual  int // items of the last chunk that was closed: room for the next
}

type group struct{ destination, order string }

// growing is a chunk that takes more.
type growing[T any] struct {
	Chunk[T]
	bytes int
	nth   int // its place among the bundle's chunks
}

// NewChunker makes a Chunker for one bundle.
func NewChunker[T any](l Limits) *Chunker[T] {
	return &Chunker[T]{limits: l, open: map[group]*growing[T]{}}
}

// Add takes one message, and gives back the chunks that go on now, in their
// order: closed ones, and remainders where the bundle holds too much.
func (c *Chunker[T]) Add(destination, order string, it Item[T], now time.Time) []Chunk[T] {
	var out []Chunk[T]
	g := group{destination, order}
	ch := c.open[g]
	if ch != nil && !c.limits.fits(len(ch.Items), ch.bytes, it.Bytes) {
		out = append(out, c.close(g, ch))
		ch = nil
	}
	if ch == nil {
		ch = &growing[T]{Chunk: Chunk[T]{Destination: destination, Order: order, First: now.UnixNano()}, nth: c.begun}
		if len(c.open) == 0 { // among many destinations few fill a batch
			ch.Items = make([]Item[T], 0, c.usual)
		}
		c.begun++
		c.open[g] = ch
	}
	ch.Items = append(ch.Items, it)
	ch.bytes += it.Bytes
	c.held += it.Bytes
	if c.limits.full(len(ch.Items), ch.bytes) {
		return append(out, c.close(g, ch))
	}
	if c.held > maxHeld {
		out = append(out, c.Flush()...)
	}
	return out
}

// close takes out a chunk that goes on as it is.
func (c *Chunker[T]) close(g group, ch *growing[T]) Chunk[T] {
	delete(c.open, g)
	c.held -= ch.bytes
	c.usual = len(ch.Items)
	ch.Closed = true
	return ch.Chunk
}

// Flush gives back the remainders, the one that began first first.
func (c *Chunker[T]) Flush() []Chunk[T] {
	all := make([]*growing[T], 0, len(c.open))
	for _, ch := range c.open {
		all = append(all, ch)
	}
	slices.SortFunc(all, func(a, b *growing[T]) int { return cmp.Compare(a.nth, b.nth) })
	out := make([]Chunk[T], len(all))
	for i, ch := range all {
		out[i] = ch.Chunk
	}
	clear(c.open)
	c.held = 0
	return out
}
