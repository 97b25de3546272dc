// Package commit tells a source what became of each bundle it emitted into:
// committed, failed, or never heard of again.
//
// A source calls Register inside ProcessElement and hands in one function. It
// is called exactly once, on a goroutine of this package, with the Outcome.
//
// It exists because the SDK's own bundle finalization runs callbacks only for
// the first bundle of an execution plan (docs/upstream.md). Everything here
// hangs on two public hooks of the FnAPI harness: the response hook sees each
// bundle end and asks for its finalization, the request hook sees the
// finalization arrive. TestUpstreamFinalizationStillBroken fails the day the
// SDK does it right, and then this package can shrink to a callback.
//
// What a finalization is worth depends on the runner, see Policy.
package commit

import "time"

// Outcome is what became of a bundle.
type Outcome int

const (
	// Committed: the runner keeps the bundle's outputs; acknowledge.
	Committed Outcome = iota
	// Failed: the bundle ended in an error; its outputs are gone.
	Failed
	// Expired: the bundle succeeded, but no word of its commit came in time.
	// Its outputs may or may not exist.
	Expired
)

func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case Failed:
		return "failed"
	default:
		return "expired"
	}
}

// A Policy says which finalization proves that a bundle is durable.
type Policy int

const (
	// AtFinalize trusts the bundle's own FinalizeBundle: Prism and Dataflow
	// send it after the bundle's outputs were persisted.
	AtFinalize Policy = iota
	// AtNextFinalize waits for the FinalizeBundle of a later bundle of the same
	// slot, one that ended after this bundle's own FinalizeBundle. Portable
	// Flink finalizes every bundle seen so far when a checkpoint completes, also
	// those that ran behind the checkpoint's barrier and are not in it. The next
	// checkpoint holds them (with at most one checkpoint at a time).
	AtNextFinalize
)

// DefaultTimeout is how long a bundle that ended well waits for its commit
// where no timeout is given.
const DefaultTimeout = 10 * time.Minute

// A Bundle is a source's stake in the bundle being processed.
type Bundle struct {
	// Slot names the reader. Under AtNextFinalize only bundles of one slot
	// vouch for each other.
	Slot string
	// Policy says which finalization counts.
	Policy Policy
	// Timeout bounds the wait for the commit, counted from the end of the
	// bundle. Zero means DefaultTimeout.
	Timeout time.Duration
	// Done is called once. took is the time from the bundle's end to its
	// outcome. It must not block for long: bundles wait behind it.
	Done func(o Outcome, took time.Duration)
	// Flush, when set, is called after Done(Committed) and before the runner
	// is told that the finalization is over. A source sets it on its last
	// bundle, so that its acknowledgements are out before the job ends. It must
	// return within seconds.
	Flush func()
}
