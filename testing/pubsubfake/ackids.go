package pubsubfake

import (
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What the ErrorInfo of an exactly-once error says.
const (
	ackErrorReason = "EXACTLY_ONCE_ACKID_FAILURE"
	ackErrorDomain = "pubsub.googleapis.com"
	permanentAckID = "PERMANENT_FAILURE_INVALID_ACK_ID"
)

// badIDs are the ack ids of one request that were not good.
type badIDs struct {
	ids       []string
	malformed string // one of them
}

func (b *badIDs) add(id string, r ackResult) {
	b.ids = append(b.ids, id)
	if r == ackMalformed && b.malformed == "" {
		b.malformed = id
		if id == "" {
			b.malformed = "(empty)"
		}
	}
}

// rest are the ids that were good.
func (b *badIDs) rest(all []string) []string {
	if len(b.ids) == 0 {
		return all
	}
	bad := make(map[string]bool, len(b.ids))
	for _, id := range b.ids {
		bad[id] = true
	}
	var good []string
	for _, id := range all {
		if !bad[id] {
			good = append(good, id)
		}
	}
	return good
}

// malformedError is the answer without exactly-once delivery: ids that are only
// too late are no error there.
func (b *badIDs) malformedError() error {
	if b.malformed == "" {
		return nil
	}
	return invalid("You have passed an invalid ack ID to the service (ack_id=%s).", b.malformed)
}

// exactlyOnceError is the answer with exactly-once delivery: each id that was
// not leased, with the reason, for the client to look up.
func (b *badIDs) exactlyOnceError() error {
	if len(b.ids) == 0 {
		return nil
	}
	return ackError(codes.InvalidArgument, "Some acknowledgement ids in the request were invalid. This could be because the acknowledgement ids have expired or the acknowledgement ids were malformed.", b.ids, permanentAckID)
}

func ackError(code codes.Code, text string, ids []string, reason string) error {
	metadata := make(map[string]string, len(ids))
	for _, id := range ids {
		metadata[id] = reason
	}
	st := status.New(code, text)
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: ackErrorReason, Domain: ackErrorDomain, Metadata: metadata})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// statusOf is the status a stream ends with after err: none for io.EOF.
func statusOf(err error) *status.Status {
	if errors.Is(err, io.EOF) {
		return status.New(codes.OK, "")
	}
	st, _ := status.FromError(err)
	return st
}
