package bridge

import (
	"sync"
	"sync/atomic"
)

// Counters are what a bridge has done, as far as its stages run in this
// process.
type Counters struct {
	// Read counts messages taken into the pipeline, Written those published,
	// DeadLettered those published as dead letters.
	Read, Written, DeadLettered atomic.Int64
	// Failed counts messages that could not be read or written, Dropped those
	// of them that were settled and lost on request.
	Failed, Dropped atomic.Int64
	// Retrying is how many messages are being tried again, Retried how many
	// were written in the end.
	Retrying, Retried atomic.Int64

	failure atomic.Pointer[string]
}

// stopped notes the first failure that ends the bridge.
func (c *Counters) stopped(reason string) { c.failure.CompareAndSwap(nil, &reason) }

// Failure is what ended the bridge, empty if nothing did.
func (c *Counters) Failure() string {
	if f := c.failure.Load(); f != nil {
		return *f
	}
	return ""
}

// counters holds the counters of the bridges of this process by the name that
// travels in their DoFns. On a worker elsewhere they are made and never read.
var counters = struct {
	sync.Mutex
	of map[string]*Counters
}{of: map[string]*Counters{}}

func countersOf(run string) *Counters {
	counters.Lock()
	defer counters.Unlock()
	c := counters.of[run]
	if c == nil {
		c = &Counters{}
		counters.of[run] = c
	}
	return c
}

func forgetCounters(run string) {
	counters.Lock()
	defer counters.Unlock()
	delete(counters.of, run)
}
