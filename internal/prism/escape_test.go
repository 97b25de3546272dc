package prism

import (
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
)

// edges counts the graph's edges by what they do.
func edges(t *testing.T, p *beam.Pipeline) map[graph.Opcode]int {
	t.Helper()
	es, _, err := p.Build()
	if err != nil {
		t.Fatalf("building the pipeline: %v", err)
	}
	count := map[graph.Opcode]int{}
	for _, e := range es {
		count[e.Op]++
	}
	return count
}

func TestEscapeAddsOneShuffledOutput(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	Escape(s, beam.Impulse(s))
	got := edges(t, p)
	if got[graph.Reshuffle] != 1 || got[graph.ParDo] != 2 {
		t.Errorf("edges %v, want one Reshuffle between two ParDos", got)
	}
}

func TestEscapeTakesPairs(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	Escape(s, beam.AddFixedKey(s, beam.Impulse(s)))
	if got := edges(t, p); got[graph.Reshuffle] != 1 {
		t.Errorf("edges %v, want one Reshuffle", got)
	}
}

func TestEscapeLeavesOtherRunnersAlone(t *testing.T) {
	setRunner(t, "dataflow")
	p, s := beam.NewPipelineWithRoot()
	Escape(s, beam.Impulse(s))
	if got := edges(t, p); got[graph.Reshuffle] != 0 || got[graph.ParDo] != 0 {
		t.Errorf("edges %v, want the Impulse alone", got)
	}
}
