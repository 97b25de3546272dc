package simrunner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// A source is the splittable DoFn of a pipeline, and what stands before it.
type source struct {
	like    any    // a DoFn of its type
	encoded []byte // as it travels
	before  []step // from the impulse on
	impulse []byte

	elem, rest, state codec
	stateful          bool
}

// A step is a ParDo before the source.
type step struct {
	like    any
	encoded []byte
	output  int // that leads to the source
}

// newSource builds the pipeline and finds the source in it.
func newSource(build func(beam.Scope) beam.PCollection, all codecs) (*source, error) {
	p, scope := beam.NewPipelineWithRoot()
	build(scope)
	edges, _, err := p.Build()
	if err != nil {
		return nil, fmt.Errorf("building the source's pipeline: %w", err)
	}
	var found *graph.MultiEdge
	for _, e := range edges {
		if e.Op != graph.ParDo || !e.DoFn.IsSplittable() {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("finding the source: %v and %v are both splittable", found.Name(), e.Name())
		}
		found = e
	}
	if found == nil {
		return nil, errors.New("finding the source: no DoFn of the pipeline is splittable")
	}
	src := &source{like: found.DoFn.Recv}
	if src.encoded, err = encode(src.like); err != nil {
		return nil, fmt.Errorf("encoding the source: %w", err)
	}
	if err := src.findBefore(edges, found.Input[0].From); err != nil {
		return nil, err
	}
	fn := (*graph.SplittableDoFn)(found.DoFn)
	src.elem = all.of(found.Input[0].From.Type().Type())
	src.rest = all.of(fn.RestrictionT())
	if fn.IsStatefulWatermarkEstimating() {
		src.stateful = true
		src.state = all.of(fn.WatermarkEstimatorStateT())
	}
	return src, nil
}

// findBefore walks from the source's input to the impulse.
func (src *source) findBefore(edges []*graph.MultiEdge, n *graph.Node) error {
	for _, e := range edges {
		for i, out := range e.Output {
			if out.To != n {
				continue
			}
			switch {
			case e.Op == graph.Impulse:
				src.impulse = e.Value
				return nil
			case e.Op == graph.Reshuffle:
				return src.findBefore(edges, e.Input[0].From)
			case e.Op != graph.ParDo || len(e.Input) != 1 || e.DoFn.Recv == nil:
				return fmt.Errorf("finding what is before the source: %v is not a plain ParDo of a struct", e.Name())
			}
			data, err := encode(e.DoFn.Recv)
			if err != nil {
				return fmt.Errorf("encoding %v: %w", e.Name(), err)
			}
			src.before = append([]step{{e.DoFn.Recv, data, i}}, src.before...)
			return src.findBefore(edges, e.Input[0].From)
		}
	}
	return fmt.Errorf("finding what is before the source: nothing outputs %v", n)
}

// prepare runs the steps before the source and returns its encoded inputs.
func (src *source) prepare(ctx context.Context, dial func([]byte) []byte) ([][]byte, error) {
	elems := []any{src.impulse}
	for _, st := range src.before {
		fn, err := decode(st.like, dial(st.encoded))
		if err != nil {
			return nil, err
		}
		var out []any
		emit := func(output int, _ mtime.Time, v any) {
			if output == st.output {
				out = append(out, v)
			}
		}
		if err := fn.lifecycle(ctx, "Setup", nil); err != nil {
			return nil, err
		}
		if err := fn.lifecycle(ctx, "StartBundle", emit); err != nil {
			return nil, err
		}
		for _, e := range elems {
			if _, err := fn.process(arguments{ctx: ctx, elem: []any{e}, emit: emit}); err != nil {
				return nil, fmt.Errorf("running %T before the source: %w", st.like, err)
			}
		}
		if err := fn.lifecycle(ctx, "FinishBundle", emit); err != nil {
			return nil, err
		}
		elems = out
	}
	var encoded [][]byte
	for _, e := range elems {
		b, err := src.elem.encode(e)
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, b)
	}
	return encoded, nil
}

// An item is a piece of work: an element of the source with a restriction.
type item struct {
	elem, rest, state []byte
	watermark         mtime.Time
	slot              string // what it is called in the log
	worker            *worker
	ready             time.Time
	woken             time.Time // a wake-up is scheduled for then
	truncated         bool
}

func (it *item) copy() *item {
	c := *it
	return &c
}

// initial makes the first items of an element.
func (src *source) initial(ctx context.Context, fn *dofn, encoded []byte) ([]*item, error) {
	elem, err := src.elem.decode(encoded)
	if err != nil {
		return nil, err
	}
	rest, err := fn.call(ctx, "CreateInitialRestriction", elem)
	if err != nil {
		return nil, fmt.Errorf("creating the initial restriction: %w", err)
	}
	rests := []any{rest}
	if fn.has("SplitRestriction") {
		all, err := fn.call(ctx, "SplitRestriction", elem, rest)
		if err != nil {
			return nil, fmt.Errorf("splitting the initial restriction: %w", err)
		}
		rests = nil
		for v, i := reflect.ValueOf(all), 0; i < v.Len(); i++ {
			rests = append(rests, v.Index(i).Interface())
		}
	}
	var items []*item
	for i, r := range rests {
		it := &item{elem: encoded, watermark: mtime.MinTimestamp, slot: fmt.Sprint(i)}
		if it.rest, err = src.rest.encode(r); err != nil {
			return nil, err
		}
		if src.stateful {
			st, err := fn.call(ctx, "InitialWatermarkEstimatorState", mtime.MinTimestamp, r, elem)
			if err != nil {
				return nil, fmt.Errorf("creating the initial estimator state: %w", err)
			}
			if it.state, err = src.state.encode(st); err != nil {
				return nil, err
			}
		}
		items = append(items, it)
	}
	return items, nil
}

// truncate is what a drain leaves of an item, nil if nothing.
func (src *source) truncate(ctx context.Context, fn *dofn, it *item) (*item, error) {
	elem, rest, err := src.decode(it)
	if err != nil {
		return nil, err
	}
	rt, err := fn.call(ctx, "CreateTracker", rest)
	if err != nil {
		return nil, fmt.Errorf("creating a tracker: %w", err)
	}
	if !fn.has("TruncateRestriction") {
		// The SDK's default: an unbounded restriction ends at once.
		if b, ok := rt.(interface{ IsBounded() bool }); ok && b.IsBounded() {
			return it, nil
		}
		return nil, nil
	}
	left, err := fn.call(ctx, "TruncateRestriction", rt, elem)
	if err != nil {
		return nil, fmt.Errorf("truncating a restriction: %w", err)
	}
	if v := reflect.ValueOf(left); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, nil
	}
	out := it.copy()
	out.truncated = true
	out.rest, err = src.rest.encode(left)
	return out, err
}

func (src *source) decode(it *item) (elem, rest any, err error) {
	if elem, err = src.elem.decode(it.elem); err != nil {
		return nil, nil, err
	}
	rest, err = src.rest.decode(it.rest)
	return elem, rest, err
}
