package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"
)

// boundaries lists what stands between a source and the transforms that settle
// its messages and ends a fused stage on Prism: there the source's messages
// would be acknowledged while what came of them is in Prism's memory only.
//
// A branch that settles nothing, such as the Read's never-used output that
// leaves the stage, does not count.
func boundaries(ctx context.Context, p *beam.Pipeline) ([]string, error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, fmt.Errorf("building the pipeline: %w", err)
	}
	env, err := graphx.CreateEnvironment(ctx, graphx.URNEnvExternal, func(context.Context) string { return "" })
	if err != nil {
		return nil, fmt.Errorf("describing the pipeline: %w", err)
	}
	pb, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		return nil, fmt.Errorf("describing the pipeline: %w", err)
	}
	return boundariesOf(pb), nil
}

func boundariesOf(pb *pipepb.Pipeline) []string {
	g := newStageGraph(pb)
	below, above := map[string]bool{}, map[string]bool{}
	for id, t := range g.leaves {
		if splittable(t) {
			g.walk(id, g.consumers, below)
		}
		if strings.Contains("/"+t.GetUniqueName()+"/", "/"+settledScope+"/") {
			above[id] = true
			g.walk(id, g.producers, above)
		}
	}
	var found []string
	for _, id := range slices.Sorted(maps.Keys(g.leaves)) {
		if below[id] && above[id] {
			if why := boundary(g.leaves[id]); why != "" {
				found = append(found, fmt.Sprintf("%s (%s)", g.leaves[id].GetUniqueName(), why))
			}
		}
	}
	return found
}

// A stageGraph is the transforms of a pipeline that do something.
type stageGraph struct {
	leaves               map[string]*pipepb.PTransform
	consumers, producers map[string][]string // transform -> transforms
}

func newStageGraph(pb *pipepb.Pipeline) *stageGraph {
	g := &stageGraph{
		leaves:    map[string]*pipepb.PTransform{},
		consumers: map[string][]string{},
		producers: map[string][]string{},
	}
	maker := map[string]string{} // PCollection -> transform
	for id, t := range pb.GetComponents().GetTransforms() {
		// A composite with a meaning of its own, such as Reshuffle, is a
		// boundary whatever it consists of: its parts are leaves, too.
		if len(t.GetSubtransforms()) > 0 {
			continue
		}
		g.leaves[id] = t
		for _, col := range t.GetOutputs() {
			maker[col] = id
		}
	}
	for id, t := range g.leaves {
		for _, col := range t.GetInputs() {
			if from, ok := maker[col]; ok {
				g.consumers[from] = append(g.consumers[from], id)
				g.producers[id] = append(g.producers[id], from)
			}
		}
	}
	return g
}

// walk marks everything that can be reached from id.
func (g *stageGraph) walk(id string, next map[string][]string, seen map[string]bool) {
	for _, n := range next[id] {
		if !seen[n] {
			seen[n] = true
			g.walk(n, next, seen)
		}
	}
}

func parDo(t *pipepb.PTransform) *pipepb.ParDoPayload {
	if t.GetSpec().GetUrn() != graphx.URNParDo {
		return nil
	}
	var p pipepb.ParDoPayload
	if proto.Unmarshal(t.GetSpec().GetPayload(), &p) != nil {
		return nil
	}
	return &p
}

// splittable tells whether t is a source.
func splittable(t *pipepb.PTransform) bool { return parDo(t).GetRestrictionCoderId() != "" }

// boundary says why t ends a stage, empty if it does not.
func boundary(t *pipepb.PTransform) string {
	switch t.GetSpec().GetUrn() {
	case graphx.URNGBK, graphx.URNReshuffle, graphx.URNCombinePerKey:
		return "a shuffle"
	case graphx.URNFlatten:
		return "a Flatten"
	}
	p := parDo(t)
	switch {
	case len(p.GetSideInputs()) > 0:
		return "a side input"
	case len(p.GetStateSpecs()) > 0 || len(p.GetTimerFamilySpecs()) > 0:
		return "state"
	case p.GetRestrictionCoderId() != "":
		return "another source"
	}
	return ""
}
