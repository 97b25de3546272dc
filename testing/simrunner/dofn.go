package simrunner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/jsonx"
)

var (
	contextType      = reflect.TypeFor[context.Context]()
	errorType        = reflect.TypeFor[error]()
	trackerType      = reflect.TypeFor[sdf.RTracker]()
	finalizationType = reflect.TypeFor[beam.BundleFinalization]()
	eventTimeType    = reflect.TypeFor[beam.EventTime]()
	windowType       = reflect.TypeFor[beam.Window]()
	paneType         = reflect.TypeFor[beam.PaneInfo]()
	continuationType = reflect.TypeFor[sdf.ProcessContinuation]()
)

// A dofn is one instance of a DoFn.
type dofn struct{ recv reflect.Value }

// encode is how a DoFn travels.
func encode(recv any) ([]byte, error) { return jsonx.Marshal(recv) }

// decode makes an instance of the type of like.
func decode(like any, data []byte) (*dofn, error) {
	t := reflect.TypeOf(like)
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	v := reflect.New(t)
	if err := jsonx.Unmarshal(v.Interface(), data); err != nil {
		return nil, fmt.Errorf("decoding DoFn %v: %w", t, err)
	}
	return &dofn{v}, nil
}

func (f *dofn) method(name string) reflect.Value { return f.recv.MethodByName(name) }

func (f *dofn) has(name string) bool { return f.method(name).IsValid() }

// call calls a method of the SDF set. Arguments are matched to parameters in
// order, by type; those that the method does not ask for are left out.
func (f *dofn) call(ctx context.Context, name string, args ...any) (any, error) {
	m := f.method(name)
	if !m.IsValid() {
		return nil, fmt.Errorf("calling %s: %v has no such method", name, f.recv.Type())
	}
	var in []reflect.Value
	for i := range m.Type().NumIn() {
		want := m.Type().In(i)
		if want == contextType {
			in = append(in, reflect.ValueOf(ctx))
			continue
		}
		for len(args) > 0 && !fits(args[0], want) {
			args = args[1:]
		}
		if len(args) == 0 {
			return nil, fmt.Errorf("calling %s of %v: nothing fits parameter %d, a %v", name, f.recv.Type(), i, want)
		}
		in = append(in, reflect.ValueOf(args[0]))
		args = args[1:]
	}
	return results(m.Call(in))
}

func fits(arg any, want reflect.Type) bool {
	return arg != nil && reflect.TypeOf(arg).AssignableTo(want)
}

// results takes the error off, and returns the first other value.
func results(out []reflect.Value) (any, error) {
	var v any
	for _, o := range out {
		if o.Type() == errorType {
			if err, _ := o.Interface().(error); err != nil {
				return nil, err
			}
			continue
		}
		if v == nil {
			v = o.Interface()
		}
	}
	return v, nil
}

// lifecycle calls Setup, StartBundle or FinishBundle if there is one.
func (f *dofn) lifecycle(ctx context.Context, name string, emit func(output int, at mtime.Time, v any)) error {
	m := f.method(name)
	if !m.IsValid() {
		return nil
	}
	a := arguments{ctx: ctx, emit: emit}
	in, err := a.of(m.Type())
	if err != nil {
		return fmt.Errorf("calling %s of %v: %w", name, f.recv.Type(), err)
	}
	_, err = results(m.Call(in))
	return err
}

// arguments are what a DoFn's method may ask for.
type arguments struct {
	ctx       context.Context
	elem      []any // value, or key and value
	tracker   any
	estimator any
	callbacks beam.BundleFinalization
	emit      func(output int, at mtime.Time, v any)
}

// of puts the arguments in the order in which a method wants them.
func (a arguments) of(m reflect.Type) ([]reflect.Value, error) {
	var in []reflect.Value
	outputs, elem := 0, a.elem
	for i := range m.NumIn() {
		t := m.In(i)
		var v any
		switch {
		case t == contextType:
			v = a.ctx
		case t == finalizationType:
			v = a.callbacks
		case t == eventTimeType:
			v = mtime.MinTimestamp
		case t == windowType:
			v = beam.Window(window.GlobalWindow{})
		case t == paneType:
			v = typex.NoFiringPane()
		case t.Implements(trackerType):
			v = a.tracker
		case a.estimator != nil && fits(a.estimator, t):
			v = a.estimator
		case t.Kind() == reflect.Func && t.NumOut() == 0:
			in = append(in, a.emitter(t, outputs))
			outputs++
			continue
		case len(elem) > 0:
			v, elem = elem[0], elem[1:]
		}
		if !fits(v, t) {
			return nil, fmt.Errorf("parameter %d, a %v, is not supported", i, t)
		}
		in = append(in, reflect.ValueOf(v))
	}
	return in, nil
}

// emitter makes the function for one output.
func (a arguments) emitter(t reflect.Type, output int) reflect.Value {
	timed := t.NumIn() > 0 && t.In(0) == eventTimeType
	return reflect.MakeFunc(t, func(in []reflect.Value) []reflect.Value {
		at := mtime.MinTimestamp
		if timed {
			at = mtime.Time(in[0].Int())
			in = in[1:]
		}
		a.emit(output, at, in[0].Interface())
		return nil
	})
}

// process calls ProcessElement. A value that it returns is output 0.
func (f *dofn) process(a arguments) (sdf.ProcessContinuation, error) {
	m := f.method("ProcessElement")
	if !m.IsValid() {
		return nil, errors.New("calling ProcessElement: no such method")
	}
	in, err := a.of(m.Type())
	if err != nil {
		return nil, fmt.Errorf("calling ProcessElement of %v: %w", f.recv.Type(), err)
	}
	var cont sdf.ProcessContinuation
	at, emitted := mtime.MinTimestamp, false
	for _, o := range m.Call(in) {
		switch o.Type() {
		case errorType:
			if err, _ := o.Interface().(error); err != nil {
				return nil, err
			}
		case continuationType:
			cont, _ = o.Interface().(sdf.ProcessContinuation)
		case eventTimeType:
			at = mtime.Time(o.Int())
		default:
			if !emitted {
				a.emit(0, at, o.Interface())
				emitted = true
			}
		}
	}
	return cont, nil
}

// A codec sends values of one type through their coder.
type codec struct {
	enc beam.ElementEncoder
	dec beam.ElementDecoder
}

// codecs are made once for each type.
type codecs map[reflect.Type]codec

func (c codecs) of(t reflect.Type) codec {
	k, ok := c[t]
	if !ok {
		k = codec{beam.NewElementEncoder(t), beam.NewElementDecoder(t)}
		c[t] = k
	}
	return k
}

func (c codec) encode(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := c.enc.Encode(v, &b); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return b.Bytes(), nil
}

func (c codec) decode(b []byte) (any, error) {
	v, err := c.dec.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return v, nil
}
