// Two jobs of one process use the same instruction ids: not a fault, a trap.
package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"google.golang.org/grpc/metadata"
)

func init() { register.Function2x0(note) }

var (
	mu   sync.Mutex
	seen = map[string][]string{} // instruction id -> worker ids
)

func note(ctx context.Context, _ []byte) {
	md, _ := metadata.FromOutgoingContext(ctx)
	mu.Lock()
	defer mu.Unlock()
	id := metrics.GetBundleID(ctx)
	seen[id] = append(seen[id], md.Get("worker_id")...)
}

func main() {
	beam.Init()
	for range 2 {
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo0(s, note, beam.Impulse(s))
		if _, err := beam.Run(context.Background(), "prism", p); err != nil {
			fmt.Println("instructionids: the job failed:", err)
			return
		}
	}
	for id, workers := range seen {
		fmt.Println("instructionids:", id, "was used by workers", workers)
	}
}
