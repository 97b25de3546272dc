package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// message makes message i. Every tenth has an ordering key.
func message(i, size int) *pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{
		Data:       body(i, size),
		Attributes: map[string]string{"n": strconv.Itoa(i), "kind": "order"},
	}
	if i%10_000 < 1000 {
		m.OrderingKey = "customer-" + strconv.Itoa(i/10_000)
	}
	return m
}

// body is different for each message, and known to the checker.
func body(i, size int) []byte {
	head := []byte(fmt.Sprintf("order %d ", i))
	if len(head) >= size {
		return head
	}
	return append(head, bytes.Repeat([]byte{'a' + byte(i%26)}, size-len(head))...)
}

// faults reads DEMO_FAULT: the messages that are not published.
func faults(fault string, n int) (map[int]bool, error) {
	if fault == "" {
		return nil, nil
	}
	count, ok := strings.CutPrefix(fault, "drop")
	k, err := strconv.Atoi(count)
	if !ok || err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("DEMO_FAULT=%s: is not drop and a number of messages (legal: drop1 to drop%d)", fault, n)
	}
	lost := map[int]bool{}
	for i := range k {
		lost[(2*i+1)*n/(2*k)] = true // spread over all of them
	}
	return lost, nil
}

// A book says how often each message came.
type book struct {
	size  int
	begin time.Time

	mu      sync.Mutex
	times   []int32
	unique  int
	copies  int
	altered int
	strange int
	last    time.Time
	took    time.Duration // until the last new message
	change  chan struct{}
}

func newBook(n, size int) *book {
	return &book{size: size, begin: time.Now(), last: time.Now(), times: make([]int32, n), change: make(chan struct{}, 1)}
}

// receive enters one message.
func (b *book) receive(m *pubsubpb.ReceivedMessage) {
	i, err := strconv.Atoi(m.Message.Attributes["n"])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now()
	if err != nil || i < 0 || i >= len(b.times) {
		b.strange++
		return
	}
	if b.times[i]++; b.times[i] > 1 {
		b.copies++
		return
	}
	b.unique++
	b.took = b.last.Sub(b.begin)
	if want := message(i, b.size); !same(want, m.Message) {
		b.altered++
	}
	select {
	case b.change <- struct{}{}:
	default:
	}
}

func same(a, b *pubsubpb.PubsubMessage) bool {
	if !bytes.Equal(a.Data, b.Data) || a.OrderingKey != b.OrderingKey || len(a.Attributes) != len(b.Attributes) {
		return false
	}
	for k, v := range a.Attributes {
		if b.Attributes[k] != v {
			return false
		}
	}
	return true
}

// wait returns when n messages have come, or none for as long as quiet says, or
// ctx has ended.
func (b *book) wait(ctx context.Context, n int, quiet time.Duration) {
	t := time.NewTicker(quiet / 10)
	defer t.Stop()
	since := time.Now()
	for {
		b.mu.Lock()
		done := b.unique >= n || time.Since(b.last) > quiet && time.Since(since) > quiet
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-b.change:
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *book) received() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unique
}

// report prints the last line and tells whether all is well.
func (b *book) report(out io.Writer, sent int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := sent - b.unique
	if b.altered > 0 || b.strange > 0 {
		fmt.Fprintf(out, "demo: altered=%d unknown=%d\n", b.altered, b.strange)
	}
	fmt.Fprintf(out, "demo: sent=%d received=%d missing=%d duplicates=%d\n", sent, b.unique, missing, b.copies)
	return missing == 0 && b.copies == 0 && b.altered == 0 && b.strange == 0
}
