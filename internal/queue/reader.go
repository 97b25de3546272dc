package queue

import (
	"cmp"
	"context"
	"hash/fnv"
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
	name   int64 // in Restriction.By

	mu        sync.Mutex
	buffer    fifo[M]              // received, not emitted; in order
	table     map[string]*entry[M] // by key, all but gone
	held      list[M]              // all of them, in order of receipt
	aside     []*entry[M]          // not to be emitted, to be released at the end
	extras    int                  // handles of duplicates, beside those of held
	bytes     int64
	late      *lateness
	memory    *memory
	call      *Call[M]              // the newest, while it runs
	epoch     int64                 // of the newest call
	visits    int64                 // calls so far
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
	park     *time.Timer
	ctx      context.Context // of settling and renewing
	stop     context.CancelFunc
	loops    sync.WaitGroup
	closing  bool          // Close was called
	shutDown chan struct{} // closed when it is over
	closeErr error

	reports struct { // what Report has told, see there
		sync.Mutex
		last Snapshot
	}
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
		cfg:    cfg,
		broker: b,
		stats:  &Stats{},
		name:   nameOf(cfg.Key),
		table:  map[string]*entry[M]{},
		calls:  map[*Call[M]]struct{}{},
		late:   newLateness(cfg.Watermark, time.Now()),
		memory: newMemory(cfg.Remember, cfg.RememberFor),
		epoch:  -1, committed: -1,
		arrived: make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
		settled: make(chan struct{}),
		kick:    make(chan struct{}, 1),

		shutDown: make(chan struct{}),
	}
	// The reader outlives the bundle, so it cannot live on the bundle's context.
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.loops.Go(r.settleLoop)
	if cfg.Lease != nil {
		r.loops.Go(r.renewLoop)
	}
	r.mu.Lock()
	r.armPark() // in case that no call comes
	r.mu.Unlock()
	join(r)
	return r
}

// nameOf is a reader's name in Restriction.By, never 0.
func nameOf(key string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int64(h.Sum64() | 1)
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
	var lease time.Duration
	if r.cfg.Lease != nil {
		lease = r.cfg.Lease()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	var slab []entry[M]
	for i := range ds {
		if len(slab) == 0 {
			slab = make([]entry[M], min(len(ds)-i, slabSize))
		}
		e := &slab[0]
		slab = slab[1:]
		e.Delivery, e.received = ds[i], now
		if e.Time.IsZero() {
			e.Time = now
		}
		e.handle = handle{h: e.Handle, until: r.leaseEnd(cmp.Or(e.Lease, lease), now)}
		if r.deliver(e, now) {
			fresh = true
		}
	}
	if fresh {
		poke(r.arrived)
	}
	return r.count() - r.cfg.MaxMessages
}

// slabSize is how many entries are allocated together. One that stays for long
// keeps its neighbors' memory.
const slabSize = 16

func (r *Reader[M]) leaseEnd(lease time.Duration, now time.Time) time.Time {
	if r.cfg.Lease == nil {
		return time.Time{}
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
		if old := r.table[k]; old != nil && r.known(old, e, now) {
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
		r.late.giveBack(e.Time, now)
		r.settleHandle(Release, e.handle)
		return false
	}
	r.hold(e)
	r.buffer.push(e)
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
func (r *Reader[M]) known(old, e *entry[M], now time.Time) bool {
	switch {
	case old.state == settling && old.how != Ack:
		return false // given back, and here it is again
	case old.ID == e.ID && e.ID != "":
		r.replaced(e)
		if old.state == settling {
			// Acknowledged, but the broker had not heard of it yet.
			r.settleHandle(Ack, e.handle)
			return true
		}
		if old.handle.until.After(now) && !old.handle.lost {
			// Two deliveries at once. Which of them the broker goes by is not
			// known, so both are renewed and settled.
			old.extra = append(old.extra, duplicate{old.handle, old.ID})
			r.extras++
		}
		old.handle = e.handle
	case e.Key == "":
		return false // no identity to go by
	case old.state == settling:
		r.stats.Deduplicated.Add(1)
		r.settleHandle(Ack, e.handle)
	default:
		r.knownDuplicate(old, e)
	}
	return true
}

// replaced counts a redelivery of a message that is held.
func (r *Reader[M]) replaced(e *entry[M]) {
	r.stats.Replaced.Add(1)
	if e.Attempt <= 1 {
		r.stats.Redelivered.Add(1) // else it was counted as marked by the broker
	}
}

// knownDuplicate lets the delivery e of old's Key wait for old's outcome.
func (r *Reader[M]) knownDuplicate(old, e *entry[M]) {
	for i := range old.extra {
		if x := &old.extra[i]; x.id == e.ID && e.ID != "" {
			r.replaced(e)
			x.handle = e.handle
			return
		}
	}
	r.stats.Deduplicated.Add(1)
	old.extra = append(old.extra, duplicate{e.handle, e.ID})
	r.extras++
}

// drop forgets e. Its handles are settled or worth nothing.
func (r *Reader[M]) drop(e *entry[M]) {
	if e.state == gone {
		return
	}
	full := r.full()
	e.state = gone
	r.held.remove(e)
	r.extras -= len(e.extra)
	e.extra = nil
	r.bytes -= int64(e.Bytes)
	if k := e.key(); k != "" && r.table[k] == e {
		delete(r.table, k)
	}
	if full && !r.full() {
		r.late.opened = time.Now()
	}
	poke(r.room)
}

// count is how many deliveries the reader holds.
func (r *Reader[M]) count() int { return r.held.n + r.extras }

// full tells whether the reader holds all that it may.
func (r *Reader[M]) full() bool {
	return r.count() >= r.cfg.MaxMessages || r.bytes >= r.cfg.MaxBytes
}

// blocked tells whether silence means nothing.
func (r *Reader[M]) blocked() bool { return !r.quiet || r.full() }

// Room is how much may be received now.
func (r *Reader[M]) Room() (messages int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.cfg.MaxMessages-r.count(), 0), max(r.cfg.MaxBytes-r.bytes, 0)
}

// WaitRoom waits until something may be received.
func (r *Reader[M]) WaitRoom(ctx context.Context) error {
	for {
		if n, b := r.Room(); n > 0 && b > 0 {
			poke(r.room) // for the next who waits: what was settled may be enough for both
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
		r.late.opened = time.Now()
	}
	r.quiet = ok
}

// HeldBytes is the size of what is received and not settled.
func (r *Reader[M]) HeldBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// LastCommitted is the greatest epoch whose bundle is known to be committed, -1
// before the first.
func (r *Reader[M]) LastCommitted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// Stats are the reader's counters.
func (r *Reader[M]) Stats() *Stats { return r.stats }
