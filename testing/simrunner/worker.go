package simrunner

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc/metadata"
)

// A worker is one harness process.
type worker struct {
	id     string
	name   string // in the log
	broker Broker

	mu    sync.Mutex
	spare map[*source][]*dofn // instances that no bundle uses
	insts int                 // instructions given
	dead  bool
	died  time.Time
}

func (w *worker) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// die tells whether it was alive.
func (w *worker) die() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return false
	}
	w.dead, w.died = true, time.Now()
	return true
}

func (w *worker) diedBefore(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead && w.died.Before(t)
}

func (w *worker) nextInstruction() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.insts++
	return strconv.Itoa(w.insts)
}

// context is what the harness calls everything with.
func (w *worker) context(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("worker_id", w.id))
}

// instance takes a DoFn that no bundle uses, or makes one. One whose bundle
// failed does not come back.
func (w *worker) instance(ctx context.Context, src *source) (*dofn, error) {
	w.mu.Lock()
	if n := len(w.spare[src]); n > 0 {
		fn := w.spare[src][n-1]
		w.spare[src] = w.spare[src][:n-1]
		w.mu.Unlock()
		return fn, nil
	}
	w.mu.Unlock()
	fn, err := decode(src.like, w.broker.Dial(w.id, src.encoded))
	if err != nil {
		return nil, err
	}
	if err := fn.lifecycle(ctx, "Setup", nil); err != nil {
		return nil, fmt.Errorf("setting up the source: %w", err)
	}
	return fn, nil
}

func (w *worker) giveBack(src *source, fn *dofn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare[src] = append(w.spare[src], fn)
}

// The hooks run under a mutex of the SDK. A goroutine that waits for a mutex
// does not count as idle in a synctest bubble, so whoever would wait there waits
// here.
func (s *sim) hooks(f func()) {
	s.hookSlot <- struct{}{}
	defer func() { <-s.hookSlot }()
	f()
}

// run executes the bundle on a goroutine of its own and reports to the runner.
func (s *sim) run(b *bundle) {
	s.pending++
	s.bundles.Go(func() {
		ctx := b.w.context(s.ctx)
		b.req = &fnpb.InstructionRequest{
			InstructionId: b.inst,
			Request: &fnpb.InstructionRequest_ProcessBundle{
				ProcessBundle: &fnpb.ProcessBundleRequest{ProcessBundleDescriptorId: "source"},
			},
		}
		s.hooks(func() { ctx = hooks.RunRequestHooks(ctx, b.req) })
		b.ctx = metrics.SetPTransformID(metrics.SetBundleID(ctx, b.inst), "source")
		err := b.execute(s)
		s.post(func() { s.runner.processed(b, err) })
	})
}

// respond ends the bundle: the hooks see the answer, then the runner does.
func (s *sim) respond(b *bundle, err error) {
	s.bundles.Go(func() {
		resp := &fnpb.InstructionResponse{InstructionId: b.inst}
		switch {
		case b.w.isDead():
			// Its process is gone; this only tidies up what is left of it here.
			err = errKilled
			resp.Error = err.Error()
		case err != nil:
			resp.Error = err.Error()
		default:
			resp.Response = &fnpb.InstructionResponse_ProcessBundle{
				ProcessBundle: &fnpb.ProcessBundleResponse{RequiresFinalization: len(b.callbacks) > 0},
			}
		}
		s.hooks(func() { hooks.RunResponseHooks(b.ctx, b.req, resp) })
		b.err, b.finalize = err, resp.GetProcessBundle().GetRequiresFinalization()
		b.ended = time.Now()
		s.post(func() { s.pending--; s.runner.ended(b) })
	})
}

// finalize sends one FinalizeBundle, unless nobody asked for it or could hear it.
func (s *sim) finalize(b *bundle) {
	if !b.finalize || b.w.isDead() {
		return
	}
	s.ledger.heard(b)
	s.bundles.Go(func() {
		ctx := b.w.context(s.ctx)
		req := &fnpb.InstructionRequest{
			InstructionId: b.w.nextInstruction(),
			Request: &fnpb.InstructionRequest_FinalizeBundle{
				FinalizeBundle: &fnpb.FinalizeBundleRequest{InstructionId: b.inst},
			},
		}
		resp := &fnpb.InstructionResponse{InstructionId: req.InstructionId}
		s.hooks(func() { ctx = hooks.RunRequestHooks(ctx, req) })
		if req.GetFinalizeBundle() != nil {
			for _, c := range b.takeCallbacks() {
				if time.Now().Before(c.until) {
					_ = c.f() // the SDK reports it and goes on
				}
			}
			resp.Response = &fnpb.InstructionResponse_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleResponse{}}
		}
		s.hooks(func() { hooks.RunResponseHooks(ctx, req, resp) })
	})
}

func (b *bundle) takeCallbacks() []callback {
	b.mu.Lock()
	defer b.mu.Unlock()
	cs := b.callbacks
	b.callbacks = nil
	return cs
}
