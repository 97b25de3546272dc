package simrunner_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/beam-brokers/beam-brokers/testing/simrunner"
)

// A memBroker is a queue without leases, like Solace's or JMS's: a delivery
// belongs to the connection that got it until it is settled there or the
// connection ends.
type memBroker struct {
	name string

	mu        sync.Mutex
	watch     func(simrunner.Event)
	ready     []*memMessage
	held      map[string]*memMessage // by delivery
	dead      map[string]bool
	unsettled int
	published int
	delivered int
	arrived   chan struct{} // closed when something becomes ready
}

type memMessage struct {
	id       string
	at       time.Time
	delivery string
	worker   string
}

// memBrokers are found by name: a DoFn travels as JSON.
var memBrokers sync.Map

func newMemBroker(name string) *memBroker {
	b := &memBroker{name: name, held: map[string]*memMessage{}, dead: map[string]bool{}, arrived: make(chan struct{})}
	memBrokers.Store(name, b)
	return b
}

func memBrokerOf(name string) *memBroker {
	b, _ := memBrokers.Load(name)
	return b.(*memBroker)
}

func (b *memBroker) close() { memBrokers.Delete(b.name) }

func (b *memBroker) Publish(n int) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for range n {
		b.published++
		m := &memMessage{id: fmt.Sprintf("m%d", b.published), at: time.Now()}
		ids = append(ids, m.id)
		b.ready = append(b.ready, m)
		b.unsettled++
	}
	b.wake()
	return ids, nil
}

func (b *memBroker) wake() {
	close(b.arrived)
	b.arrived = make(chan struct{})
}

func (b *memBroker) Watch(f func(simrunner.Event)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = f
}

func (b *memBroker) event(kind simrunner.EventKind, m *memMessage, worker string) {
	if b.watch != nil {
		b.watch(simrunner.Event{Kind: kind, ID: m.id, Delivery: m.delivery, Worker: worker})
	}
}

const anyWorker = "{worker}"

func (b *memBroker) Dial(worker string, dofn []byte) []byte {
	return bytes.ReplaceAll(dofn, []byte(anyWorker), []byte(worker))
}

// Cut gives back what the worker held.
func (b *memBroker) Cut(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead[worker] = true
	b.release(func(m *memMessage) bool { return m.worker == worker })
}

func (b *memBroker) release(match func(*memMessage) bool) {
	for d, m := range b.held {
		if match(m) {
			b.event(simrunner.Lapsed, m, m.worker)
			delete(b.held, d)
			b.ready = append(b.ready, m)
		}
	}
	b.wake()
}

func (b *memBroker) Unsettled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsettled
}

func (b *memBroker) Faults() []simrunner.BrokerFault {
	return []simrunner.BrokerFault{
		{Name: "connections end", Strike: func(*rand.Rand) func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.release(func(*memMessage) bool { return true })
			return nil
		}},
	}
}

// take delivers up to n messages; it does not wait.
func (b *memBroker) take(worker string, n int) []*memMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead[worker] {
		return nil
	}
	n = min(n, len(b.ready))
	var out []*memMessage
	for _, m := range b.ready[:n] {
		b.delivered++
		m.delivery, m.worker = fmt.Sprintf("d%d", b.delivered), worker
		b.held[m.delivery] = m
		b.event(simrunner.Delivered, m, worker)
		c := *m
		out = append(out, &c)
	}
	b.ready = b.ready[n:]
	return out
}

// wait waits until there may be something to take.
func (b *memBroker) wait(ctx context.Context) error {
	b.mu.Lock()
	n, c := len(b.ready), b.arrived
	b.mu.Unlock()
	if n > 0 {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle ends deliveries; those that are not the worker's are refused.
func (b *memBroker) settle(worker string, ack bool, deliveries ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead[worker] {
		return
	}
	for _, d := range deliveries {
		m := b.held[d]
		switch {
		case m == nil:
		case m.worker != worker:
			b.event(simrunner.Refused, m, worker)
		case ack:
			b.event(simrunner.Acked, m, worker)
			delete(b.held, d)
			b.unsettled--
		default:
			b.event(simrunner.Returned, m, worker)
			delete(b.held, d)
			b.ready = append(b.ready, m)
		}
	}
	b.wake()
}
