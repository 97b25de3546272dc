package prism

import (
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// noSplits is Prism's name for the experiment that stops it from splitting a
// running bundle. It is read when a job is submitted.
const noSplits = "prism_disable_sdf_split"

var experimentsMu sync.Mutex

// DisableSplits makes Prism leave running bundles whole, in every job that
// this process submits from now on. A transform that keeps state calls it
// while the pipeline is constructed, after the program has parsed its flags.
//
// Experiments that the user named stay as they are. On a runner that is known
// not to be Prism nothing is changed; elsewhere the experiment is an unknown
// word and has no effect. The price on Prism is that the restrictions of one
// splittable DoFn stay in one bundle and run one after another.
func DisableSplits() {
	if !MayBe(Captured()) {
		return
	}
	experimentsMu.Lock()
	defer experimentsMu.Unlock()
	*jobopts.Experiments = withExperiment(*jobopts.Experiments, noSplits)
}

// withExperiment returns the comma-separated list with name in it, unchanged
// when it is there already.
func withExperiment(list, name string) string {
	for _, have := range strings.Split(list, ",") {
		if have == name { // Prism compares exactly, so a padded word does not count
			return list
		}
	}
	if strings.TrimSpace(list) == "" {
		return name
	}
	return list + "," + name
}
