package pubsubio

import (
	"context"
	"errors"
	"strings"

	"github.com/beam-brokers/beam-brokers/internal/clients"
	"github.com/beam-brokers/beam-brokers/internal/publish"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A refusal is a message that was not sent because the service would refuse it.
type refusal struct {
	err   error
	alone bool // the batch holds nothing else
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// classifyPublish says what an error of a publish call means. Nobody else looks
// into such an error.
func classifyPublish(err error) publish.Verdict {
	var refused *refusal
	if errors.As(err, &refused) {
		return publish.Verdict{Blame: !refused.alone, NotSent: true}
	}
	var open *clients.OpenError
	if errors.As(err, &open) {
		return publish.Verdict{Retry: true} // nothing was sent
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return publish.Verdict{Retry: true, Unknown: true}
	}
	st, _ := status.FromError(err)
	switch st.Code() {
	case codes.InvalidArgument:
		return publish.Verdict{Blame: true}
	case codes.ResourceExhausted:
		// A server with a smaller receive limit than the service's refuses the
		// request, not the quota: halves of it may pass.
		if strings.Contains(st.Message(), "larger than max") {
			return publish.Verdict{Blame: true}
		}
		return publish.Verdict{Retry: true}
	case codes.Unavailable:
		return publish.Verdict{Retry: true, Unknown: !neverConnected(st.Message())}
	case codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return publish.Verdict{Retry: true, Unknown: true}
	case codes.Aborted, codes.Unauthenticated: // credentials may just be rotated
		return publish.Verdict{Retry: true}
	default: // NotFound, PermissionDenied, FailedPrecondition, Unimplemented...
		return publish.Verdict{}
	}
}

// neverConnected tells from gRPC's text that a call was not sent: the code is
// the same as for a connection that broke before the answer came.
func neverConnected(text string) bool {
	return strings.Contains(text, "Error while dialing") || strings.Contains(text, "name resolver error")
}
