package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

// Config is what a Reader needs to know beside its Broker.
type Config struct {
	// Key names the reader in the process, see ReaderKey.
	Key string
	// Name is what logs call the source, for example the subscription.
	Name string
	// Policy is the runner's commit policy.
	Policy commit.Policy
	// CommitTimeout bounds the wait for a bundle's commit. Zero adapts: at
	// least ten minutes, more where commits were seen to take longer.
	CommitTimeout time.Duration
	// MaxMessages and MaxBytes bound what is received and not settled.
	MaxMessages int
	MaxBytes    int64
	// Lease is the lease step, asked for each time; nil where deliveries have
	// no lease.
	Lease func() time.Duration
	// EarlyAck acknowledges at emit, before any commit.
	EarlyAck bool
	// Remember is how many keys of acknowledged messages are kept, and for how
	// long, to drop their duplicates. Zero remembers none.
	Remember    int
	RememberFor time.Duration
	// Watermark is the watermark's configuration.
	Watermark Watermark
	// ParkAfter is how long a reader that no call visits keeps its buffer, at
	// least; it adapts to the gaps between calls. Default 10 s.
	ParkAfter time.Duration
	// CloseAfter is how long a parked reader with nothing unsettled keeps its
	// clients. Default 60 s.
	CloseAfter time.Duration
}

// A Reader holds the messages of one slot. It is safe for concurrent use.
type Reader[M any] struct {
	cfg    Config
	broker Broker[M]
	stats  *Stats

	mu        sync.Mutex
	buffer    []*entry[M]          // received, not emitted; in order
	table     map[string]*entry[M] // by key, all but gone
	held      list[M]              // all of them, in order of receipt
	aside     []*entry[M]          // not to be emitted, to be released at the end
	bytes     int64
	late      *lateness
	memory    *memory
	call      *Call[M]              // the newest, while it runs
	epoch     int64                 // of the newest call
	calls     map[*Call[M]]struct{} // emitted, outcome unknown
	committed int64                 // greatest epoch known to be committed
	empties   int                   // calls in a row that found nothing
	rhythm    rhythm
	err       error // Receive gave up
	ending    ending
	closed    bool
	quiet     bool // connected and able to receive

	arrived chan struct{} // something came into the buffer, or a call has to look up
	room    chan struct{} // something was settled

	queue    [3][]settlement[M] // by Settlement
	inFlight int                // settlements taken from queue and not answered
	settled  chan struct{}      // closed when nothing is left to settle
	kick     chan struct{}

	receive struct { // the Receive goroutine
		cancel context.CancelFunc
		done   chan struct{}
	}
	park  *time.Timer
	ctx   context.Context // of settling and renewing
	stop  context.CancelFunc
	loops sync.WaitGroup
	// OnClose, when set before the first call, runs when the reader is closed: it
	// leaves its registry.
	OnClose func()
}

// New makes a Reader of b. Nothing is received before the first call.
func New[M any](cfg Config, b Broker[M]) *Reader[M] {
	if cfg.ParkAfter <= 0 {
		cfg.ParkAfter = 10 * time.Second
	}
	if cfg.CloseAfter <= 0 {
		cfg.CloseAfter = time.Minute
	}
	r := &Reader[M]{
		cfg:     cfg,
		broker:  b,
		stats:   &Stats{},
		table:   map[string]*entry[M]{},
		calls:   map[*Call[M]]struct{}{},
		late:    newLateness(cfg.Watermark, time.Now()),
		memory:  newMemory(cfg.Remember, cfg.RememberFor),
		epoch:   -1,
		arrived: make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
		settled: make(chan struct{}),
		kick:    make(chan struct{}, 1),
	}
	// The reader outlives the bundle, so it cannot live on the bundle's context.
	r.ctx, r.stop = context.WithCancel(context.Background())
	join(r)
	r.loops.Go(r.settleLoop)
	if cfg.Lease != nil {
		r.loops.Go(r.renewLoop)
	}
	return r
}

// poke wakes whoever waits on c, now or next.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Deliver puts received messages into the buffer. A message that is held
// already only gets its new handle; one that was acknowledged and is remembered
// is acknowledged again. It returns how many messages the reader holds beyond
// its bound: a broker that honours flow control never makes it positive.
func (r *Reader[M]) Deliver(ds []Delivery[M]) (over int) {
	if len(ds) == 0 {
		return 0
	}
	now := time.Now()
	slab := make([]entry[M], len(ds))
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	for i := range ds {
		e := &slab[i]
		e.Delivery, e.received = ds[i], now
		e.handle = handle{h: ds[i].Handle, until: r.leaseEnd(ds[i].Lease, now)}
		if r.deliver(e, now) {
			fresh = true
		}
	}
	if fresh {
		poke(r.arrived)
	}
	return r.held.n - r.cfg.MaxMessages
}

func (r *Reader[M]) leaseEnd(lease time.Duration, now time.Time) time.Time {
	switch {
	case r.cfg.Lease == nil:
		return time.Time{}
	case lease == 0:
		lease = r.cfg.Lease()
	}
	return now.Add(lease)
}

// deliver takes one message in and tells whether it can be emitted.
func (r *Reader[M]) deliver(e *entry[M], now time.Time) bool {
	r.stats.Received.Add(1)
	if e.Attempt > 1 {
		r.stats.Redelivered.Add(1)
	}
	r.late.observe(e.Time, now)
	k := e.key()
	if k != "" {
		if old := r.table[k]; old != nil && r.known(old, e) {
			return false
		}
		if r.memory.has(k, now) {
			r.stats.Deduplicated.Add(1)
			r.settleHandle(Ack, e.handle)
			return false
		}
	}
	if r.parked() {
		// The last messages of a stream that is being closed.
		r.settleHandle(Release, e.handle)
		return false
	}
	r.hold(e)
	r.buffer = append(r.buffer, e)
	return true
}

// parked tells whether nothing may come into the buffer.
func (r *Reader[M]) parked() bool { return r.receive.done == nil || r.ending.begun }

func (r *Reader[M]) hold(e *entry[M]) {
	r.held.add(e)
	r.bytes += int64(e.Bytes)
	if k := e.key(); k != "" {
		r.table[k] = e
	}
}

// known deals with a delivery of a key that is held, and tells whether that is
// all there is to do.
func (r *Reader[M]) known(old, e *entry[M]) bool {
	switch {
	case old.state == settling && old.how != Ack:
		return false // given back, and here it is again
	case old.ID == e.ID && e.ID != "":
		r.stats.Replaced.Add(1)
		if old.state == settling {
			// Acknowledged, but the broker had not heard of it yet.
			r.settleHandle(Ack, e.handle)
			return true
		}
		old.handle = e.handle
	case e.Key == "":
		return false // no identity to go by
	case old.state == settling:
		r.stats.Deduplicated.Add(1)
		r.settleHandle(Ack, e.handle)
	default:
		r.stats.Deduplicated.Add(1)
		old.extra = append(old.extra, e.handle)
	}
	return true
}

// drop forgets e. Its handles are settled or worth nothing.
func (r *Reader[M]) drop(e *entry[M]) {
	if e.state == gone {
		return
	}
	e.state = gone
	r.held.remove(e)
	r.bytes -= int64(e.Bytes)
	if k := e.key(); k != "" && r.table[k] == e {
		delete(r.table, k)
	}
	poke(r.room)
}

// Room is how much may be received now.
func (r *Reader[M]) Room() (messages int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.cfg.MaxMessages-r.held.n, 0), max(r.cfg.MaxBytes-r.bytes, 0)
}

// WaitRoom waits until something may be received.
func (r *Reader[M]) WaitRoom(ctx context.Context) error {
	for {
		if n, b := r.Room(); n > 0 && b > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.room:
		}
	}
}

// Connected tells the reader whether its client is able to receive. Only a
// connected reader counts as idle.
func (r *Reader[M]) Connected(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok && !r.quiet {
		r.late.received = time.Now()
	}
	r.quiet = ok
}

// HeldBytes is the size of what is received and not settled.
func (r *Reader[M]) HeldBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// LastCommitted is the greatest epoch whose bundle is known to be committed.
func (r *Reader[M]) LastCommitted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// Stats are the reader's counters.
func (r *Reader[M]) Stats() *Stats { return r.stats }

// startReceiving runs Broker.Receive until parkNow. The caller locks.
func (r *Reader[M]) startReceiving() {
	if r.receive.done != nil || r.ending.begun || r.closed {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	r.receive.cancel, r.receive.done = cancel, done
	r.loops.Go(func() {
		defer close(done)
		err := r.broker.Receive(ctx, r)
		r.Connected(false)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
		poke(r.arrived)
	})
}

// stopReceiving ends Receive, waits for it and releases the buffer. Messages
// that were emitted keep their leases until their outcome is known.
func (r *Reader[M]) stopReceiving() {
	r.mu.Lock()
	cancel, done := r.receive.cancel, r.receive.done
	r.mu.Unlock()
	if done == nil {
		return
	}
	cancel()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.receive.done == done {
		r.receive.cancel, r.receive.done = nil, nil
		r.err = nil
	}
}

// releaseBuffer gives back what was not emitted. The caller locks.
func (r *Reader[M]) releaseBuffer() {
	for _, e := range r.buffer {
		r.settle(Release, e)
	}
	r.buffer = nil
}

// armPark schedules the parking of a reader that nobody visits. The caller locks.
func (r *Reader[M]) armPark() {
	if r.park != nil {
		r.park.Stop()
	}
	r.park = time.AfterFunc(max(r.cfg.ParkAfter, 3*r.rhythm.gap), r.unvisited)
}

// unvisited parks the reader: the runner went on somewhere else, or ended.
func (r *Reader[M]) unvisited() {
	r.mu.Lock()
	if r.call != nil || r.closed {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	r.stopReceiving()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call != nil || r.closed {
		return // visited meanwhile; the call starts it again
	}
	if len(r.buffer) > 0 {
		slog.Debug("releasing the buffer of a reader that no bundle visits", "source", r.cfg.Name, "messages", len(r.buffer))
	}
	r.releaseBuffer()
	r.park = time.AfterFunc(r.cfg.CloseAfter, r.idleClose)
}

// idleClose closes a parked reader that has nothing to settle, and looks again
// later otherwise.
func (r *Reader[M]) idleClose() {
	r.mu.Lock()
	if r.call != nil || r.closed || r.receive.done != nil {
		r.mu.Unlock()
		return
	}
	if r.held.n > 0 || len(r.calls) > 0 {
		r.park = time.AfterFunc(r.cfg.CloseAfter, r.idleClose)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	if err := r.Close(); err != nil {
		slog.Warn("closing an idle reader", "source", r.cfg.Name, "error", err)
	}
}

// Close stops receiving, gives back everything that is not acknowledged and
// ends the reader's goroutines and clients.
func (r *Reader[M]) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	if r.OnClose != nil {
		r.OnClose()
	}
	if r.park != nil {
		r.park.Stop()
	}
	r.mu.Unlock()
	r.stopReceiving()
	r.mu.Lock()
	r.releaseBuffer()
	for e := r.held.first; e != nil; e = e.next {
		if e.state == emitted {
			r.settle(Nack, e)
		}
	}
	r.mu.Unlock()
	r.flush(closeFlush)
	r.stop()
	r.loops.Wait()
	leave(r, r.stats)
	return r.broker.Close()
}

// closeFlush bounds how long Close waits for the last settlements.
const closeFlush = 10 * time.Second
