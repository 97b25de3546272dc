// Command bridge moves messages from one broker to another through Beam: see
// docs/bridge.md, or `bridge help`.
package main

import (
	"flag"
	"os"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/bridge"
)

func main() {
	// A runner that starts this binary as a worker has arguments of its own.
	if slices.ContainsFunc(os.Args[1:], func(a string) bool { return a == "--worker" || a == "-worker" || a == "--worker=true" }) {
		flag.Parse()
		beam.Init() // does not return
	}
	os.Exit(bridge.Main(os.Args[1:], os.Stdout, os.Stderr))
}
