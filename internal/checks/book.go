package checks

import (
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// Message makes message i of a check: a body of size bytes, and its number in
// the attribute n.
func Message(i, size int) *pubsubpb.PubsubMessage {
	body := make([]byte, size)
	for k := range body {
		body[k] = 'a' + byte((i+k)%26)
	}
	return &pubsubpb.PubsubMessage{Data: body, Attributes: map[string]string{"n": strconv.Itoa(i)}}
}

// Number is the number of a message, -1 where it has none.
func Number(m *pubsubpb.PubsubMessage) int {
	n, err := strconv.Atoi(m.GetAttributes()["n"])
	if err != nil {
		return -1
	}
	return n
}

// A Book says which of the messages 0 to n-1 came, and how often. A message
// that the broker delivers twice is one; one that was published twice is two.
type Book struct {
	mu      sync.Mutex
	seen    map[string]bool // ids of the broker
	times   []int32
	unique  int
	copies  int
	strange int
	last    time.Time
}

// NewBook makes a Book.
func NewBook(n int) *Book {
	return &Book{times: make([]int32, n), seen: map[string]bool{}, last: time.Now()}
}

// Receive enters a message.
func (b *Book) Receive(m *pubsubpb.ReceivedMessage) { b.Enter(m.Message) }

// Enter enters a message.
func (b *Book) Enter(m *pubsubpb.PubsubMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[m.MessageId] {
		return
	}
	b.seen[m.MessageId] = true
	b.last = time.Now()
	i := Number(m)
	if i < 0 || i >= len(b.times) {
		b.strange++
		return
	}
	if b.times[i]++; b.times[i] > 1 {
		b.copies++
		return
	}
	b.unique++
}

// Unique is how many different messages came.
func (b *Book) Unique() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unique
}

// Copies is how often a message came that had come before.
func (b *Book) Copies() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.copies
}

// Strange is how many messages came that are none of the check's.
func (b *Book) Strange() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.strange
}

// Quiet is how long ago the last one came.
func (b *Book) Quiet() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.last)
}

// Has tells whether message i came.
func (b *Book) Has(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times[i] > 0
}
