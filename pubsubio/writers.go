package pubsubio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn3x1[beam.EventTime, Message, func(beam.EventTime, []byte), error](&splitBundleFn{})
	register.DoFn2x1[[]byte, func(beam.EventTime, Message), error](&joinPartFn{})
	register.Emitter2[beam.EventTime, []byte]()
}

// maxPart bounds the memory of a part; a bundle with more has more parts.
const maxPart = 8 << 20

// forWriters splits each bundle into n parts and hands the parts out anew, so
// that as many workers can write them. The messages of an ordering key stay
// together, in order.
func forWriters(s beam.Scope, n int, messages beam.PCollection) beam.PCollection {
	s = s.Scope("pubsubio.NumWriters")
	return beam.ParDo(s, &joinPartFn{}, beam.Reshuffle(s, beam.ParDo(s, &splitBundleFn{N: n}, messages)))
}

// splitBundleFn gathers a bundle's messages into N parts.
type splitBundleFn struct {
	N int // Auto: CPUs of the worker

	parts []part
	next  int
}

// A part is what one writer gets of a bundle.
type part struct {
	data  []byte
	least beam.EventTime
}

// StartBundle begins with empty parts.
func (f *splitBundleFn) StartBundle(func(beam.EventTime, []byte)) {
	n := f.N
	if n == Auto {
		n = runtime.NumCPU()
	}
	f.parts, f.next = make([]part, n), 0
	for i := range f.parts {
		f.parts[i].least = mtime.MaxTimestamp
	}
}

// ProcessElement puts the message into a part.
func (f *splitBundleFn) ProcessElement(et beam.EventTime, m Message, emit func(beam.EventTime, []byte)) error {
	i := f.next
	if m.OrderingKey == "" {
		f.next = (f.next + 1) % len(f.parts)
	} else {
		h := fnv.New32a()
		_, _ = h.Write([]byte(m.OrderingKey)) // never fails
		i = int(h.Sum32() % uint32(len(f.parts)))
	}
	b, err := encodeMessage(m)
	if err != nil {
		return fmt.Errorf("encoding message %s: %w", m.MessageID, err)
	}
	p := &f.parts[i]
	p.data = appendText(binary.AppendVarint(p.data, int64(et)), b)
	p.least = min(p.least, et)
	if len(p.data) >= maxPart {
		f.parts[i].emit(emit)
	}
	return nil
}

// FinishBundle emits the parts.
func (f *splitBundleFn) FinishBundle(emit func(beam.EventTime, []byte)) {
	for i := range f.parts {
		f.parts[i].emit(emit)
	}
	f.parts = nil
}

func (p *part) emit(emit func(beam.EventTime, []byte)) {
	if len(p.data) > 0 {
		emit(p.least, p.data)
	}
	*p = part{least: mtime.MaxTimestamp}
}

// joinPartFn makes messages of a part.
type joinPartFn struct{}

// ProcessElement emits the part's messages, each with its own event time.
func (*joinPartFn) ProcessElement(data []byte, emit func(beam.EventTime, Message)) error {
	for len(data) > 0 {
		et, n := binary.Varint(data)
		if n <= 0 {
			return errCutPart
		}
		size, k := binary.Uvarint(data[n:])
		if k <= 0 || size > math.MaxInt32 || int(size) > len(data)-n-k {
			return errCutPart
		}
		end := n + k + int(size)
		m, err := decodeMessage(data[n+k : end])
		if err != nil {
			return fmt.Errorf("decoding part of a bundle: %w", err)
		}
		emit(beam.EventTime(et), m)
		data = data[end:]
	}
	return nil
}

var errCutPart = errors.New("decoding part of a bundle: it is cut off")
