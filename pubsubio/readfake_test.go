package pubsubio

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const testSub = "projects/test-project/subscriptions/orders-sub"

// A readRig is a fake service with a subscription, a source of it, and the
// runner's side of that source: bundles, commits and residuals are the test's
// to decide. Everything runs on the clock of a synctest bubble.
type readRig struct {
	*testing.T
	srv  *pubsubfake.Server
	conn Connection
	name string // of the subscription; default orders-sub

	fn       *readFn
	worker   string // id of the harness that runs the bundles
	prepared []byte
	rest     queue.Restriction
	wm       queue.WatermarkState
	bundles  int

	during func(rt *sdf.LockRTracker) // runs beside each call, which waits for it

	mu       sync.Mutex
	log      []string        // the lines logged
	requests []proto.Message // see capture
}

// readBubble runs f with a clock of its own and a subscription to orders whose
// messages are leased for 10 s unless settings say otherwise.
func readBubble(t *testing.T, settings func(*pubsubpb.Subscription), f func(t *testing.T, r *readRig), opts ...pubsubfake.Option) {
	t.Helper()
	activateHooks()
	synctest.Test(t, func(t *testing.T) {
		r := &readRig{T: t, worker: "worker-1", srv: pubsubfake.New(opts...)}
		host, remove := inmemory.Register(func(o ...grpc.DialOption) (*grpc.ClientConn, error) {
			return r.srv.Dial(t.Context(), o...)
		})
		r.conn = Connection{ProjectID: testProject, EmulatorHost: host}
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(lineWriter{r}, nil)))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := queue.CloseAll(ctx); err != nil {
				t.Errorf("closing readers: %v", err)
			}
			subscribers.CloseIdle()
			if n := subscribers.Len(); n > 0 {
				t.Errorf("%d clients are in use after the last reader is closed", n)
			}
			remove()
			r.srv.Close()
			slog.SetDefault(before)
		})
		if err := r.srv.AddTopic(testTopic); err != nil {
			t.Fatal(err)
		}
		if settings == nil {
			settings = func(*pubsubpb.Subscription) {}
		}
		if err := r.srv.AddSubscription(testSub, testTopic, settings); err != nil {
			t.Fatal(err)
		}
		f(t, r)
	})
}

// activateHooks does what a harness does at its start.
func activateHooks() {
	if err := commit.Enable(); err != nil {
		panic(err)
	}
	hooks.SerializeHooksToOptions()
	hooks.DeserializeHooksFromOptions(context.Background())
}

// A lineWriter keeps what is logged.
type lineWriter struct{ r *readRig }

func (w lineWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.log = append(w.r.log, strings.TrimSpace(string(p)))
	return len(p), nil
}

// logged returns the lines that contain text.
func (r *readRig) logged(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, l := range r.log {
		if strings.Contains(l, text) {
			out = append(out, l)
		}
	}
	return out
}

// source makes the source as a worker has it, and does the step before it.
func (r *readRig) source(opts ...ReadOption) {
	r.Helper()
	r.build(opts...)
	if err := r.prepare(); err != nil {
		r.Fatal(err)
	}
}

// build makes the source. Nothing is connected to.
func (r *readRig) build(opts ...ReadOption) {
	r.Helper()
	cfg, err := newReadConfig(r.conn, cmp.Or(r.name, "orders-sub"), append([]ReadOption{Runner("prism")}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	r.fn = travel(r.T, &readFn{Conn: r.conn, Config: cfg, Nonce: queue.NewNonce()})
	if err := r.fn.Setup(r.bundleContext("setup")); err != nil {
		r.Fatal(err)
	}
	r.rest = r.fn.SplitRestriction(r.bundleContext("split"), nil, r.fn.CreateInitialRestriction(nil))[0]
	r.wm = r.fn.InitialWatermarkEstimatorState(0, r.rest, nil)
}

func (r *readRig) prepare() error {
	p := travel(r.T, &prepareFn{Conn: r.conn, Config: r.fn.Config})
	return p.ProcessElement(r.bundleContext("prepare"), nil, func(b []byte) { r.prepared = b })
}

// travel sends a value as a DoFn travels.
func travel[T any](t *testing.T, v *T) *T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *readRig) bundleContext(id string) context.Context {
	ctx := metadata.AppendToOutgoingContext(r.Context(), "worker_id", r.worker)
	return metrics.SetBundleID(ctx, id)
}

// A readBundle is one call of ProcessElement in a bundle of its own.
type readBundle struct {
	r      *readRig
	id     string
	ctx    context.Context
	began  time.Time
	took   time.Duration
	got    []Message
	times  []beam.EventTime
	failed []FailedMessage
	resume time.Duration
	done   bool
	err    error
}

// call runs one ProcessElement. On success the slot goes on with the residual.
func (r *readRig) call() *readBundle {
	r.bundles++
	b := &readBundle{r: r, id: fmt.Sprintf("inst%03d", r.bundles), began: time.Now()}
	b.ctx = r.bundleContext(b.id)
	rt := r.fn.CreateTracker(r.rest)
	est := r.fn.CreateWatermarkEstimator(r.wm)
	var beside sync.WaitGroup
	if r.during != nil {
		beside.Go(func() { r.during(rt) })
	}
	cont, err := r.fn.ProcessElement(b.ctx, est, nil, rt, r.prepared,
		func(et beam.EventTime, m Message) { b.got, b.times = append(b.got, m), append(b.times, et) },
		func(_ beam.EventTime, m FailedMessage) { b.failed = append(b.failed, m) }, nil)
	b.took, b.err = time.Since(b.began), err
	beside.Wait()
	if err != nil {
		return b
	}
	r.wm = *travel(r.T, ptr(r.fn.WatermarkEstimatorState(est)))
	if !cont.ShouldResume() {
		if !rt.IsDone() {
			r.Errorf("%s stopped with a tracker that is not done", b.id)
		}
		b.done = true
		return b
	}
	_, residual, err := rt.TrySplit(0)
	if err != nil || residual == nil {
		r.Fatalf("no residual: %v", err)
	}
	r.rest = *travel(r.T, ptr(residual.(queue.Restriction)))
	b.resume = cont.ResumeDelay()
	return b
}

func ptr[T any](v T) *T { return &v }

// ends is the end of the bundle, good or bad.
func (b *readBundle) ends(ok bool) *readBundle {
	resp := &fnpb.InstructionResponse{InstructionId: b.id}
	if ok {
		resp.Response = &fnpb.InstructionResponse_ProcessBundle{ProcessBundle: &fnpb.ProcessBundleResponse{}}
	} else {
		resp.Error = "failed"
	}
	hooks.RunResponseHooks(b.ctx, &fnpb.InstructionRequest{
		InstructionId: b.id,
		Request:       &fnpb.InstructionRequest_ProcessBundle{ProcessBundle: &fnpb.ProcessBundleRequest{}},
	}, resp)
	return b
}

// finalize is the runner's word that the bundle is durable.
func (b *readBundle) finalize() *readBundle {
	req := &fnpb.InstructionRequest{
		InstructionId: "finalize-" + b.id,
		Request:       &fnpb.InstructionRequest_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleRequest{InstructionId: b.id}},
	}
	ctx := hooks.RunRequestHooks(b.r.bundleContext(req.InstructionId), req)
	hooks.RunResponseHooks(ctx, req, &fnpb.InstructionResponse{})
	return b
}

// commit ends the bundle well and commits it.
func (b *readBundle) commit() *readBundle { return b.ends(b.err == nil).finalize() }

// pause waits as long as the source asked for.
func (b *readBundle) pause() { time.Sleep(b.resume) }

// fail is a bundle that is thrown away: its residual never exists.
func (r *readRig) fail() *readBundle {
	rest, wm := r.rest, r.wm
	b := r.call()
	r.rest, r.wm = rest, wm
	return b.ends(false)
}

// read makes and commits calls until n messages have come or the time is over.
func (r *readRig) read(n int, within time.Duration) []Message {
	r.Helper()
	return r.readWith(n, within, func(b *readBundle) { b.commit() })
}

func (r *readRig) readWith(n int, within time.Duration, end func(*readBundle)) []Message {
	r.Helper()
	var got []Message
	for deadline := time.Now().Add(within); len(got) < n && time.Now().Before(deadline); {
		b := r.call()
		end(b)
		if b.err != nil {
			r.Fatalf("after %d messages: %v", len(got), b.err)
		}
		got = append(got, b.got...)
		if b.done {
			break
		}
		b.pause()
		synctest.Wait()
	}
	if len(got) < n {
		r.Errorf("%d of %d messages within %v", len(got), n, within)
	}
	return got
}

// endJob closes the readers, as the end of a job does.
func (r *readRig) endJob() {
	r.Helper()
	if err := queue.CloseAll(r.Context()); err != nil {
		r.Error(err)
	}
}

// publish stores n messages id-000000...
func (r *readRig) publish(n int) {
	r.Helper()
	r.publishFrom(0, n)
}

func (r *readRig) publishFrom(from, n int) {
	r.Helper()
	ms := make([]*pubsubpb.PubsubMessage, n)
	for i := range ms {
		id := fmt.Sprintf("id-%06d", from+i)
		ms[i] = &pubsubpb.PubsubMessage{Data: []byte(id), Attributes: map[string]string{"n": id}}
	}
	r.store(ms...)
}

func (r *readRig) store(ms ...*pubsubpb.PubsubMessage) {
	r.Helper()
	if _, err := r.srv.PublishAt(testTopic, time.Now(), ms...); err != nil {
		r.Fatal(err)
	}
}

func (r *readRig) stats() pubsubfake.SubscriptionStats {
	synctest.Wait()
	return r.srv.Stats(testSub)
}

// capture keeps the requests of a method; all of the same type.
func capture[M proto.Message](r *readRig, method string) func() []M {
	r.srv.Inject(pubsubfake.Fault{Method: method, When: func(m proto.Message) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, proto.Clone(m))
		return false
	}})
	return func() []M {
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		var out []M
		for _, m := range r.requests {
			if m, ok := m.(M); ok {
				out = append(out, m)
			}
		}
		return out
	}
}

// watermark is how far the runner has been told to come.
func (r *readRig) watermark() time.Time { return time.UnixMilli(r.wm.MS) }

// reader is the process's reader of the slot.
func (r *readRig) reader() *source {
	r.Helper()
	src, ok := readers.Find(queue.ReaderKey(r.worker, r.fn.Nonce, r.rest.Slot))
	if !ok {
		r.Fatal("no reader")
	}
	return src
}

// counts tells how often each body came.
func counts(got []Message) map[string]int {
	n := map[string]int{}
	for _, m := range got {
		n[string(m.Data)]++
	}
	return n
}

// checkAll fails unless each of n messages came exactly once.
func (r *readRig) checkAll(got []Message, n int) {
	r.Helper()
	missing, twice := 0, 0
	c := counts(got)
	for i := range n {
		switch c[fmt.Sprintf("id-%06d", i)] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	if missing+twice > 0 || len(c) != n {
		r.Errorf("%d missing, %d more than once, %d different ones of %d", missing, twice, len(c), n)
	}
}
