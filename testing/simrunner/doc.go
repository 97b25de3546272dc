// Package simrunner drives a streaming source as a Beam runner does, with
// everything going wrong that can go wrong, and checks that no message is lost.
//
// It takes the source's real DoFn out of a built pipeline, sends it through
// JSON to several workers as a runner would, and calls its methods: initial
// restriction, splits, ProcessElement, checkpoints, truncation. Bundles run
// with a context like the harness's and pass through the FnAPI hooks, so that a
// source which acknowledges by bundle finalization sees what it would see on a
// real worker. Restrictions and estimator states go through their coders
// between bundles.
//
// What a runner does with a bundle depends on the Mode. In Dataflow mode each
// bundle is committed by itself, failed ones are tried again, finalization is
// best effort, and work that was given up may still run (a zombie). In Flink
// mode checkpoints decide: outputs are durable once a checkpoint that holds
// them has completed, a failure restores the last completed one, and a
// completed checkpoint finalizes every bundle that has ended by then, also
// those behind its barrier.
//
// Faults are drawn from the seed. The checks are those of Result: nothing
// missing, nothing acknowledged before its output is durable, everything
// settled in time, no message late that was delivered once, no duplicate
// without a reason.
//
// Run has to be called inside a testing/synctest bubble; the time it takes is
// simulated. The schedule is a function of the seed, what happens within one
// instant of simulated time is up to the Go scheduler.
//
// The package is experimental: names may change until version 1.
package simrunner
