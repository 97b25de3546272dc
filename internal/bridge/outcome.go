package bridge

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn1x0[beam.X](&countFn{})
	register.DoFn1x1[Record, Record](&readCountFn{})
	register.DoFn1x1[FailedRecord, error](&stopFn{})
	register.DoFn1x0[FailedRecord](&dropFn{})
	register.DoFn1x1[FailedRecord, Record](&deadLetterFn{})
	register.DoFn1x1[FailedRecord, Record](&againFn{})
}

// readCountFn counts what comes out of the source.
type readCountFn struct {
	Run string

	c *Counters
}

// Setup finds the counters.
func (f *readCountFn) Setup() { f.c = countersOf(f.Run) }

// ProcessElement counts r.
func (f *readCountFn) ProcessElement(r Record) Record {
	f.c.Read.Add(1)
	return r
}

// What a countFn counts.
const (
	countWritten      = "written"
	countDeadLettered = "dead_lettered"
	countRetried      = "retried"
)

// countFn counts messages that were written somewhere.
type countFn struct {
	Run, What string

	of    *atomic.Int64
	again *atomic.Int64
}

// Setup finds the counters.
func (f *countFn) Setup() {
	c := countersOf(f.Run)
	switch f.What {
	case countWritten:
		f.of = &c.Written
	case countDeadLettered:
		f.of = &c.DeadLettered
	case countRetried:
		f.of, f.again = &c.Retried, &c.Retrying
	}
}

// ProcessElement counts one message.
func (f *countFn) ProcessElement(_ beam.X) {
	f.of.Add(1)
	if f.again != nil {
		f.again.Add(-1)
	}
}

// stopFn ends the bundle and with it the bridge: nothing of the bundle is
// settled.
type stopFn struct {
	Run string
	// Doing completes "stopping because ... failed": "writing".
	Doing string

	c *Counters
}

// Setup finds the counters.
func (f *stopFn) Setup() { f.c = countersOf(f.Run) }

// ProcessElement fails.
func (f *stopFn) ProcessElement(m FailedRecord) error {
	f.c.Failed.Add(1)
	reason := fmt.Sprintf("%s message %q: %s", f.Doing, m.Record.ID, m.Reason)
	f.c.stopped(reason)
	return fmt.Errorf("stopping the bridge: %s", reason)
}

// dropFn counts messages and lets go of them.
type dropFn struct {
	Run, Doing string

	c    *Counters
	told time.Time
}

// Setup finds the counters.
func (f *dropFn) Setup() { f.c = countersOf(f.Run) }

// dropReminder is how often dropping is logged.
const dropReminder = time.Minute

// ProcessElement drops m.
func (f *dropFn) ProcessElement(m FailedRecord) {
	f.c.Failed.Add(1)
	n := f.c.Dropped.Add(1)
	if now := time.Now(); now.Sub(f.told) > dropReminder {
		f.told = now
		slog.Warn("dropping messages that failed, as asked for", "failed", f.Doing, "message", m.Record.ID, "reason", m.Reason, "dropped", n)
	}
}

// deadLetterFn makes dead letters.
type deadLetterFn struct {
	Run, Source string

	c    *Counters
	told time.Time
}

// Setup finds the counters.
func (f *deadLetterFn) Setup() { f.c = countersOf(f.Run) }

// ProcessElement makes the dead letter of m: the message as it was, with
// headers that say why.
func (f *deadLetterFn) ProcessElement(m FailedRecord) Record {
	f.c.Failed.Add(1)
	now := time.Now()
	if now.Sub(f.told) > dropReminder {
		f.told = now
		slog.Warn("sending messages that failed to the dead letter sink", "message", m.Record.ID, "reason", m.Reason)
	}
	r := m.Record
	r.Destination = ""
	r.Headers = append(append([]Header(nil), r.Headers...), deadLetterHeaders(m, f.Source, now)...)
	return r
}

// againFn hands on messages that are to be tried again.
type againFn struct {
	Run string

	c *Counters
}

// Setup finds the counters.
func (f *againFn) Setup() { f.c = countersOf(f.Run) }

// ProcessElement hands on m.
func (f *againFn) ProcessElement(m FailedRecord) Record {
	f.c.Failed.Add(1)
	f.c.Retrying.Add(1)
	return m.Record
}
