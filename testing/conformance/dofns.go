package conformance

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	beam.RegisterType(reflect.TypeFor[Message]())
	beam.RegisterType(reflect.TypeFor[Failure]())
	beam.RegisterType(reflect.TypeFor[Outcome]())
	register.DoFn1x1[Message, error](&keepFn{})
	register.DoFn1x0[Failure](&keepFailureFn{})
	register.DoFn1x0[Outcome](&keepOutcomeFn{})
	register.DoFn2x0[string, func(*Message) bool](&keepGroupFn{})
	register.Function1x2(keyOf)
	register.Iter1[Message]()
}

// A record is what came out of a job. The DoFns find it by its key, since they
// travel as JSON.
type record struct {
	key string
	// element and finish, when set, decide over each message as it is processed
	// and each bundle of n messages as it ends.
	element func(Message) error
	finish  func(n int) error
	// cancelled: bundles that are open now will not be committed, although they
	// go on in this process.
	cancelled atomic.Bool

	mu       sync.Mutex
	got      []Message // of bundles that have ended well
	failures []Failure
	outcomes []Outcome
	grouped  int // messages in windows that have fired
}

var records sync.Map // key -> *record

func newRecord() *record {
	r := &record{key: rand.Text()}
	records.Store(r.key, r)
	return r
}

func recordOf(key string) *record {
	r, ok := records.Load(key)
	if !ok {
		panic(fmt.Sprintf("no record %q: the pipeline runs in another process", key))
	}
	return r.(*record)
}

// A tally is how much a record holds.
type tally struct{ got, failures, outcomes, grouped int }

func (r *record) tally() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return tally{len(r.got), len(r.failures), len(r.outcomes), r.grouped}
}

func (r *record) messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Message(nil), r.got...)
}

// keepFn takes messages into the record when their bundle ends, because those
// of a bundle that fails do not count.
type keepFn struct {
	Key string

	rec     *record
	pending []Message
}

func (f *keepFn) StartBundle() {
	f.rec, f.pending = recordOf(f.Key), nil
}

func (f *keepFn) ProcessElement(m Message) error {
	if f.rec.element != nil {
		if err := f.rec.element(m); err != nil {
			return err
		}
	}
	f.pending = append(f.pending, m)
	return nil
}

func (f *keepFn) FinishBundle() error {
	if f.rec.finish != nil && len(f.pending) > 0 {
		if err := f.rec.finish(len(f.pending)); err != nil {
			return err
		}
	}
	if f.rec.cancelled.Load() {
		return errOnPurpose
	}
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	f.rec.got = append(f.rec.got, f.pending...)
	return nil
}

type keepFailureFn struct{ Key string }

func (f *keepFailureFn) ProcessElement(m Failure) {
	r := recordOf(f.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, m)
}

type keepOutcomeFn struct{ Key string }

func (f *keepOutcomeFn) ProcessElement(o Outcome) {
	r := recordOf(f.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, o)
}

func keyOf(m Message) (string, Message) { return m.Key, m }

// keepGroupFn counts the messages of windows that fire.
type keepGroupFn struct{ Key string }

func (f *keepGroupFn) ProcessElement(_ string, group func(*Message) bool) {
	r := recordOf(f.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	var m Message
	for group(&m) {
		r.grouped++
	}
}
