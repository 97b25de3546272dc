// Package prism holds everything this module does because of faults of Prism,
// Beam's own Go runner, so that a transform states in one line which fault it
// is exposed to and a user's plain beam.Run(ctx, "prism", p) is right without
// a flag.
//
//   - DisableSplits: a bundle of a stateful stage that sits still is split, and
//     a key then runs twice at the same time; the last write of state wins and
//     elements are lost.
//   - Escape: a stage without an output keeps a whole core busy for as long as
//     its bundle lasts.
//   - WarnProcs: with a single Go processor each bundle waits for a preemption.
//   - CheckRunner: the direct runner drops process continuations.
//
// Two more faults are avoided by the shape of our transforms and need no call:
// a DoFn with two timer families never ends (ours have one at most), and
// watermark holds are lost when restrictions of one source run in different
// bundles (a source has one restriction on Prism). docs/upstream.md describes
// each fault with a minimal program, its cause and a patch; the tests of this
// package fail on the day one is repaired.
package prism
