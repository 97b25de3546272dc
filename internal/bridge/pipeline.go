package bridge

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// settledScope holds the transforms that stand for "the message has arrived":
// what lies between the source and them must be one stage for a crash to lose
// nothing on Prism.
const settledScope = "settled"

// build makes the pipeline. Each kind of failure has its own dead letter sink:
// a Flatten before a shared one would be a boundary.
func (s *sides) build(run, onFailure string) *beam.Pipeline {
	p, root := beam.NewPipelineWithRoot()
	records, unread := s.from.Read(root.Scope("from"))
	records = beam.ParDo(root.Scope("read"), &readCountFn{Run: run}, records)
	written, unwritten := s.to.Write(root.Scope("to"), records)
	s.count(root, run, countWritten, written)
	s.failed(root.Scope("unread"), run, "reading", onFailure, unread)
	s.failed(root.Scope("unwritten"), run, "writing", onFailure, unwritten)
	return p
}

func (s *sides) count(root beam.Scope, run, what string, col beam.PCollection) {
	beam.ParDo0(root.Scope(settledScope), &countFn{Run: run, What: what}, col)
}

// failed says what becomes of messages that could not be read or written.
func (s *sides) failed(root beam.Scope, run, doing, onFailure string, col beam.PCollection) {
	switch {
	case s.deadLetter != nil:
		letters := beam.ParDo(root, &deadLetterFn{Run: run, Source: s.from.Name}, col)
		written, unwritten := s.deadLetter.Write(root, letters)
		s.count(root, run, countDeadLettered, written)
		beam.ParDo0(root, &stopFn{Run: run, Doing: "writing the dead letter of"}, unwritten)
	case onFailure == OnFailureDrop:
		beam.ParDo0(root.Scope(settledScope), &dropFn{Run: run, Doing: doing}, col)
	case onFailure == OnFailureRetry && doing == "writing":
		again := beam.ParDo(root, &againFn{Run: run}, col)
		s.count(root, run, countRetried, s.to.Resend(root, again))
	default:
		// What cannot be decoded now can never be.
		beam.ParDo0(root, &stopFn{Run: run, Doing: doing}, col)
	}
}
