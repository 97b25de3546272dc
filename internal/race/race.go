// Package race tells tests whether they run under the race detector.
//
// Beam's harness (2.77.0) closes the channel of its answers while bundles may
// still send to it when a job is cancelled, a race of its own that the detector
// reports as the test's. Tests that cancel a job on Prism skip themselves under
// the detector; make test runs them once more without it.
package race

import "testing"

// SkipCancel skips a test that cancels a job.
func SkipCancel(t *testing.T) {
	t.Helper()
	if enabled {
		t.Skip("cancelling a job is a data race inside Beam's harness; make test runs this without the detector")
	}
}
