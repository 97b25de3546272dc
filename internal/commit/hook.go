package commit

import (
	"context"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	"google.golang.org/grpc/metadata"
)

const hookName = "github.com/beam-brokers/beam-brokers/internal/commit"

// The harness makes its hooks anew for every job of a process, so what they
// share has to live here.
var bundles = newTable()

func init() {
	hooks.RegisterHook(hookName, func([]string) hooks.Hook {
		return hooks.Hook{Req: bundles.request, Resp: bundles.response}
	})
}

// Enable makes the hooks part of the pipeline being built. Every transform that
// calls Register must call it at construction.
func Enable() error { return hooks.EnableHook(hookName) }

// Register adds b to the bundle that ctx belongs to. It must be called from
// ProcessElement with the context given there.
func Register(ctx context.Context, b Bundle) {
	bundles.register(keyOf(ctx, metrics.GetBundleID(ctx)), b)
}

// PolicyFor is the policy of a runner named as in Beam's --runner flag. An
// empty name is settled on the worker: Prism is known by the form of its
// instruction ids, and any other runner gets the careful policy.
func PolicyFor(ctx context.Context, runner string) Policy {
	switch runner {
	case "prism", "dataflow":
		return AtFinalize
	case "":
		if strings.HasPrefix(metrics.GetBundleID(ctx), "inst") {
			return AtFinalize
		}
	}
	return AtNextFinalize
}

// WorkerID is the id of the harness that ctx belongs to; several can share a
// process.
func WorkerID(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return strings.Join(md.Get("worker_id"), ",")
}

// A key names a bundle in the process. Instruction ids alone collide between
// two jobs of one process.
type key struct{ worker, instruction string }

func keyOf(ctx context.Context, instruction string) key {
	return key{WorkerID(ctx), instruction}
}

type finalizeRef struct{}

// request sees each instruction before the harness does. A FinalizeBundle that
// the SDK did not ask for itself would end in an error there (and read a map of
// the SDK without its lock), so it is turned into an empty query; response
// answers in its place.
func (t *table) request(ctx context.Context, req *fnpb.InstructionRequest) (context.Context, error) {
	f := req.GetFinalizeBundle()
	if f == nil || t.askedBySDK(keyOf(ctx, f.GetInstructionId())) {
		return ctx, nil
	}
	req.Request = &fnpb.InstructionRequest_MonitoringInfos{MonitoringInfos: &fnpb.MonitoringInfosMetadataRequest{}}
	return context.WithValue(ctx, finalizeRef{}, f.GetInstructionId()), nil
}

// response sees each answer before the runner does.
func (t *table) response(ctx context.Context, req *fnpb.InstructionRequest, resp *fnpb.InstructionResponse) error {
	if ref, ok := ctx.Value(finalizeRef{}).(string); ok {
		resp.Error = ""
		resp.Response = &fnpb.InstructionResponse_FinalizeBundle{FinalizeBundle: &fnpb.FinalizeBundleResponse{}}
		t.finalized(keyOf(ctx, ref))
		return nil
	}
	switch {
	case req.GetFinalizeBundle() != nil:
		t.finalized(keyOf(ctx, req.GetFinalizeBundle().GetInstructionId()))
	case req.GetProcessBundle() != nil:
		k := keyOf(ctx, req.GetInstructionId())
		if resp == nil || resp.GetError() != "" || resp.GetProcessBundle() == nil {
			t.failed(k)
			return nil
		}
		pb := resp.GetProcessBundle()
		if t.succeeded(k, pb.GetRequiresFinalization()) {
			pb.RequiresFinalization = true
		}
	}
	return nil
}
