package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc/metadata"

	"github.com/beam-brokers/beam-brokers/internal/commit"
)

func init() {
	if err := commit.Enable(); err != nil {
		panic(err)
	}
	// What a harness does at its start: the hooks become active.
	hooks.SerializeHooksToOptions()
	hooks.DeserializeHooksFromOptions(context.Background())
}

// bubble runs f with a clock of its own. The process's state is made anew, since
// its channels belong to one bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		resetProcess()
		f(t)
	})
	resetProcess()
}

func resetProcess() {
	process.Lock()
	defer process.Unlock()
	process.open, process.changed = map[member]struct{}{}, make(chan struct{})
	process.past, process.draining = Snapshot{}, false
}

// A fakeBroker hands over what a test gives it and keeps what it is told.
type fakeBroker struct {
	in   chan []Delivery[string] // to be delivered
	fail chan error              // Receive returns it

	mu       sync.Mutex
	how      map[any]Settlement // last settlement by handle
	when     map[any]time.Time
	times    map[any]int // settlements by handle
	renewed  map[any]int
	lost     map[any]bool // Renew says so
	refuse   map[any]bool // Settle fails for it
	receives int
	running  int
	closed   int
	settling chan struct{} // when not nil, Settle waits for it
}

func newFakeBroker() *fakeBroker {
	return &fakeBroker{
		in: make(chan []Delivery[string]), fail: make(chan error),
		how: map[any]Settlement{}, when: map[any]time.Time{}, times: map[any]int{},
		renewed: map[any]int{}, lost: map[any]bool{}, refuse: map[any]bool{},
	}
}

func (b *fakeBroker) Receive(ctx context.Context, r *Reader[string]) error {
	b.mu.Lock()
	b.receives++
	b.running++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}()
	r.Connected(true)
	for {
		select {
		case ds := <-b.in:
			r.Deliver(ds)
		case err := <-b.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *fakeBroker) Settle(ctx context.Context, s Settlement, handles []any) (failed []any, err error) {
	b.mu.Lock()
	wait := b.settling
	b.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return handles, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range handles {
		if b.refuse[h] {
			failed, err = append(failed, h), fmt.Errorf("settling: refused")
			continue
		}
		b.how[h], b.when[h] = s, time.Now()
		b.times[h]++
	}
	return failed, err
}

func (b *fakeBroker) Renew(_ context.Context, _ time.Duration, handles []any) (lost []any, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range handles {
		if b.lost[h] {
			lost = append(lost, h)
			continue
		}
		b.renewed[h]++
	}
	return lost, nil
}

func (b *fakeBroker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return nil
}

// settled is what was told so far: "ack" -> handles.
func (b *fakeBroker) settled() map[string][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string][]string{}
	for h, s := range b.how {
		out[s.String()] = append(out[s.String()], h.(string))
	}
	for _, hs := range out {
		slices.Sort(hs)
	}
	return out
}

// A rig is a reader with its broker and the runner's side of it.
type rig struct {
	t     *testing.T
	b     *fakeBroker
	r     *Reader[string]
	est   *Estimator
	epoch int64
	begun int
	// worker differs from rig to rig: what a test leaves in internal/commit must
	// not meet another's bundles.
	worker string
}

var rigs atomic.Int64

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	cfg := Config{Key: t.Name(), Name: "queue", MaxMessages: 1000, MaxBytes: 1 << 20}
	if change != nil {
		change(&cfg)
	}
	b := newFakeBroker()
	g := &rig{t: t, b: b, r: New(cfg, b), est: NewEstimator(InitialState()), worker: fmt.Sprint(rigs.Add(1))}
	t.Cleanup(func() {
		if err := g.r.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func message(id string) Delivery[string] {
	return Delivery[string]{Msg: id, ID: id, Bytes: 10, Handle: "h-" + id, Time: time.Now()}
}

// deliver hands over messages of these ids and waits until they are taken.
func (g *rig) deliver(ids ...string) {
	g.t.Helper()
	var ds []Delivery[string]
	for _, id := range ids {
		ds = append(ds, message(id))
	}
	g.give(ds...)
}

func (g *rig) give(ds ...Delivery[string]) {
	g.t.Helper()
	g.b.in <- ds
	synctest.Wait()
}

// A runnerCall is a call in a bundle of its own.
type runnerCall struct {
	*Call[string]
	g   *rig
	ctx context.Context
	id  string
	tr  *Tracker
	got []string
	mu  sync.Mutex // as sdf.LockRTracker has
	res Result
}

func (g *rig) bundleContext(id string) context.Context {
	ctx := metadata.AppendToOutgoingContext(g.t.Context(), "worker_id", g.worker)
	return metrics.SetBundleID(ctx, id)
}

// begin starts the next call of the slot.
func (g *rig) begin(l Limits) *runnerCall {
	c := g.beginAt(g.epoch, g.est, l)
	g.epoch++
	return c
}

func (g *rig) beginAt(epoch int64, est *Estimator, l Limits) *runnerCall {
	var by int64
	if g.begun > 0 {
		by = g.r.name
	}
	return g.beginFrom(Restriction{Epoch: epoch, By: by}, est, l)
}

func (g *rig) beginFrom(r Restriction, est *Estimator, l Limits) *runnerCall {
	g.begun++
	c := &runnerCall{g: g, id: fmt.Sprintf("inst%03d", g.begun), tr: NewTracker(r, nil)}
	c.ctx = g.bundleContext(c.id)
	if l.Length == 0 {
		l.Length = 50 * time.Millisecond
	}
	c.Call = g.r.Begin(c.ctx, c.tr, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.tr.TryClaim(nil)
	}, est, l)
	return c
}

// read takes everything that the call gives.
func (c *runnerCall) read() *runnerCall {
	for d := c.Next(); d != nil; d = c.Next() {
		c.got = append(c.got, d.Msg)
	}
	return c
}

// end ends the call and the bundle.
func (c *runnerCall) end() *runnerCall {
	c.res = c.End()
	c.bundleEnds(c.res.Err == nil)
	return c
}

func (c *runnerCall) bundleEnds(ok bool) {
	resp := &fnpb.InstructionResponse{InstructionId: c.id}
	if ok {
		resp.Response = &fnpb.InstructionResponse_ProcessBundle{ProcessBundle: &fnpb.ProcessBundleResponse{}}
	} else {
		resp.Error = "failed"
	}
	hooks.RunResponseHooks(c.ctx, &fnpb.InstructionRequest{
		InstructionId: c.id,
		Request:       &fnpb.InstructionRequest_ProcessBundle{ProcessBundle: &fnpb.ProcessBundleRequest{}},
	}, resp)
}

// finalize is the runner's word that the bundle is durable.
func (c *runnerCall) finalize() {
	req := &fnpb.InstructionRequest{
		InstructionId: "finalize-" + c.id,
		Request:       &fnpb.InstructionRequest_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleRequest{InstructionId: c.id}},
	}
	ctx := hooks.RunRequestHooks(c.g.bundleContext(req.InstructionId), req)
	resp := &fnpb.InstructionResponse{}
	hooks.RunResponseHooks(ctx, req, resp)
	synctest.Wait()
}

func (g *rig) wantSettled(want map[string][]string) {
	g.t.Helper()
	synctest.Wait()
	if got := g.b.settled(); !maps.EqualFunc(got, want, slices.Equal) {
		g.t.Errorf("settled %v, want %v", got, want)
	}
}

func wantIDs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("emitted %q, want %q", got, want)
	}
}

func (g *rig) wantHeld(n int) {
	g.t.Helper()
	synctest.Wait()
	var s Snapshot
	g.r.addTo(&s)
	if s.Unsettled != int64(n) {
		g.t.Errorf("%d messages held, want %d", s.Unsettled, n)
	}
}

// renewals is how often the lease of h was renewed.
func (b *fakeBroker) renewals(h string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renewed[h]
}

// settlements is how often h was settled.
func (b *fakeBroker) settlements(h string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times[h]
}

// lose lets Renew report the leases of hs as lost.
func (b *fakeBroker) lose(hs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range hs {
		b.lost[h] = true
	}
}
