package prism

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn2x0[beam.X, func([]byte)](&dropFn{})
	register.Emitter1[[]byte]()
	register.Function1x0(discard)
}

// Escape gives the stage that makes col an output that leaves it: an empty
// one, through a Reshuffle, to a DoFn that never sees an element. Without any
// such output Prism spins on a closed channel from the start of the stage's
// bundle to its end, a whole core for an idle source that waits in its call.
//
// Elements of col are not shuffled: a DoFn that is fused to col's maker drops
// them, at the price of a function call each; a col that is never written to
// costs nothing. Escape does nothing on a runner that is known not to be
// Prism.
func Escape(s beam.Scope, col beam.PCollection) {
	if !MayBe(Captured()) {
		return
	}
	s = s.Scope("prism.Escape")
	if typex.IsKV(col.Type()) {
		col = beam.DropKey(s, col)
	}
	none := beam.ParDo(s, &dropFn{}, col)
	beam.ParDo0(s, discard, beam.Reshuffle(s, none))
}

// dropFn emits nothing, whatever it gets: its output is the one that leaves
// the stage.
type dropFn struct{}

// ProcessElement drops the element.
func (*dropFn) ProcessElement(_ beam.X, _ func([]byte)) {}

// discard stands behind the shuffle, as a consumer that keeps the shuffle in
// the pipeline.
func discard([]byte) {}
