// Package conformance is the suite every connector of this module must pass.
//
// A connector supplies a [Harness] and a table of [Features]; [Run] does the
// rest. The package is public so that the authors of other connectors can use
// it, and experimental: its API may change in any release.
package conformance
