// Package conformance is the suite that every connector of this module must
// pass, on each broker it is run against.
//
// A connector supplies a [Harness], which makes places in a broker and builds
// the connector's Read and Write over a neutral [Message], and a table of
// [Features]. [Run] runs a subtest for each feature. There are no skips: what a
// broker cannot do, or cannot be made to do by a test, is switched off in the
// table with a reason, and docs/conformance.md, which is generated from the
// tables, shows it.
//
// What a broker can be made to do by a test is said by small interfaces that a
// [Destination] may implement: [Counter], [Dropper], [Restarter], [Slower],
// [Redeliverer], [Decoder], [BatchCounter], [ConnectionCounter],
// [UnknownNamer]. A feature that is on and needs one that is missing fails.
//
// Pipelines run on Prism in the test's process and end by draining, so bundles
// fail and jobs are cancelled for real, but Prism never commits late or twice,
// never splits and never moves a source to another worker. Those are the
// business of testing/simrunner, which drives the same DoFns.
//
// Subtests run one after another: draining is for the whole process.
//
// The package is experimental: names may change until version 1.
package conformance
