package pubsubio

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/grpc"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const (
	testProject = "test-project"
	testTopic   = "projects/test-project/topics/orders"
)

func init() {
	register.DoFn2x0[[]byte, func(beam.EventTime, Message)](&feedFn{})
	register.DoFn4x1[context.Context, *sdf.LockRTracker, []byte, func(beam.EventTime, Message), sdf.ProcessContinuation](&dribbleFn{})
	register.DoFn2x0[beam.EventTime, PublishResult](&keepPublishedFn{})
	register.DoFn2x0[beam.EventTime, FailedMessage](&keepFailedFn{})
	register.Emitter2[beam.EventTime, Message]()
}

// A writeRig is a fake service with a topic, a Connection to it, and a place
// where the outcomes of pipelines in this process are kept.
type writeRig struct {
	testing.TB
	srv  *pubsubfake.Server
	conn Connection
	key  string

	mu        sync.Mutex
	input     []Message
	published []PublishResult
	failed    []FailedMessage
	times     map[string]beam.EventTime // event time of each outcome, by id
}

var rigs sync.Map // key -> *writeRig, for DoFns of this process

func newWriteRig(t testing.TB, opts ...pubsubfake.Option) *writeRig {
	t.Helper()
	r := &writeRig{TB: t, srv: pubsubfake.New(opts...), key: rand.Text(), times: map[string]beam.EventTime{}}
	host, remove := inmemory.Register(func(o ...grpc.DialOption) (*grpc.ClientConn, error) {
		return r.srv.Dial(context.Background(), o...)
	})
	rigs.Store(r.key, r)
	t.Cleanup(func() {
		topicClients.CloseIdle()
		rigs.Delete(r.key)
		remove()
		r.srv.Close()
	})
	r.conn = Connection{ProjectID: testProject, EmulatorHost: host}
	r.topic("orders")
	return r
}

func (r *writeRig) topic(id string) string {
	r.Helper()
	name := fullName(testProject, "topics", id)
	if _, err := r.srv.CreateTopic(context.Background(), &pubsubpb.Topic{Name: name}); err != nil {
		r.Fatal(err)
	}
	return name
}

// run writes the messages, all in one bundle, and waits for the pipeline's end.
func (r *writeRig) run(ms []Message, opts ...WriteOption) beam.PipelineResult {
	r.Helper()
	r.input = ms
	return r.pipeline(func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, &feedFn{Key: r.key}, beam.Impulse(s))
	}, opts...)
}

// dribble writes n messages of an unbounded source, per of them in a bundle,
// and one bundle each delay.
func (r *writeRig) dribble(n, per int, delay time.Duration, opts ...WriteOption) beam.PipelineResult {
	r.Helper()
	return r.pipeline(func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, &dribbleFn{N: int64(n), Per: int64(per), Delay: delay}, beam.Impulse(s))
	}, opts...)
}

func (r *writeRig) pipeline(source func(beam.Scope) beam.PCollection, opts ...WriteOption) beam.PipelineResult {
	r.Helper()
	p, s := beam.NewPipelineWithRoot()
	w := Write(s, r.conn, source(s), opts...)
	beam.ParDo0(s, &keepPublishedFn{Key: r.key}, w.Published)
	beam.ParDo0(s, &keepFailedFn{Key: r.key}, w.Failed)
	res, err := beam.Run(context.Background(), "prism", p)
	if err != nil {
		r.Fatalf("running the pipeline: %v", err)
	}
	return res
}

// checkOnce fails unless each of the ids has exactly one outcome.
func (r *writeRig) checkOnce(ids []string) {
	r.Helper()
	n := map[string]int{}
	for _, p := range r.published {
		n[p.ID]++
	}
	for _, f := range r.failed {
		n[f.Message.MessageID]++
	}
	for _, id := range ids {
		if n[id] != 1 {
			r.Errorf("%s has %d outcomes", id, n[id])
		}
	}
	if got := len(r.published) + len(r.failed); got != len(ids) {
		r.Errorf("%d outcomes for %d messages", got, len(ids))
	}
}

func ids(ms []Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.MessageID
	}
	return out
}

func messages(n int) []Message {
	ms := make([]Message, n)
	for i := range ms {
		id := fmt.Sprintf("id-%06d", i)
		ms[i] = Message{MessageID: id, Data: []byte(id), Attributes: map[string]string{"n": id}}
	}
	return ms
}

// feedFn emits what its rig was given, with an event time per message.
type feedFn struct{ Key string }

func (f *feedFn) ProcessElement(_ []byte, emit func(beam.EventTime, Message)) {
	r, _ := rigs.Load(f.Key)
	for i, m := range r.(*writeRig).input {
		emit(beam.EventTime(1000+i), m)
	}
}

// dribbleFn is an unbounded source of N messages that ends.
type dribbleFn struct {
	N, Per int64
	Delay  time.Duration
}

func (f *dribbleFn) CreateInitialRestriction(_ []byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: f.N}
}

func (f *dribbleFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (f *dribbleFn) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (f *dribbleFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (f *dribbleFn) ProcessElement(_ context.Context, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, Message)) sdf.ProcessContinuation {
	start := rt.GetRestriction().(offsetrange.Restriction).Start
	for i := start; rt.TryClaim(i); i++ {
		id := fmt.Sprintf("id-%06d", i)
		emit(beam.EventTime(1000+i), Message{MessageID: id, Data: []byte(id)})
		if i+1-start == f.Per {
			return sdf.ResumeProcessingIn(f.Delay)
		}
	}
	return sdf.StopProcessing()
}

type keepPublishedFn struct{ Key string }

func (f *keepPublishedFn) ProcessElement(et beam.EventTime, p PublishResult) {
	v, _ := rigs.Load(f.Key)
	r := v.(*writeRig)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, p)
	r.times[p.ID] = et
}

type keepFailedFn struct{ Key string }

func (f *keepFailedFn) ProcessElement(et beam.EventTime, m FailedMessage) {
	v, _ := rigs.Load(f.Key)
	r := v.(*writeRig)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, m)
	r.times[m.Message.MessageID] = et
}

// requestSizes returns the messages of each publish request to orders.
func (r *writeRig) requestSizes() []int {
	var n []int
	for _, q := range r.srv.TopicStats(testTopic).RequestLog {
		n = append(n, q.Messages)
	}
	return n
}

// checkOrder fails unless the messages of each ordering key were stored in the
// order of their data.
func (r *writeRig) checkOrder() {
	r.Helper()
	last := map[string]string{}
	for _, m := range r.srv.Published(testTopic) {
		k, d := m.GetOrderingKey(), string(m.GetData())
		if k != "" && d <= last[k] {
			r.Errorf("key %s: %s stored after %s", k, d, last[k])
		}
		last[k] = d
	}
}
