package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// write writes messages in one bundle and returns their outcomes by id.
func (r *rig) write(d Destination, msgs []Message, o WriteOptions) map[string][]Outcome {
	r.Helper()
	for i := range msgs {
		msgs[i].ID = fmt.Sprintf("id-%06d", i)
	}
	rec := newRecord()
	j := r.start(rec, func(s beam.Scope) {
		beam.ParDo0(s, &keepOutcomeFn{Key: rec.key}, d.Write(s, beam.CreateList(s, msgs), o))
	})
	if err := j.wait(); err != nil {
		r.Fatal(err)
	}
	byID := map[string][]Outcome{}
	for _, out := range rec.outcomes {
		byID[out.ID] = append(byID[out.ID], out)
	}
	for _, m := range msgs {
		if n := len(byID[m.ID]); n != 1 {
			r.Errorf("message %s has %d outcomes", m.ID, n)
		}
	}
	if len(byID) != len(msgs) {
		r.Errorf("outcomes of %d messages, want %d", len(byID), len(msgs))
	}
	return byID
}

// stored is what the destination has stored, of which n are expected.
func (r *rig) stored(d Destination, n int) []Message {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	msgs, err := d.Stored(ctx, n)
	if err != nil {
		r.Fatal(err)
	}
	return msgs
}

// allWritten checks that no outcome is a failure.
func (r *rig) allWritten(byID map[string][]Outcome) {
	r.Helper()
	for id, outs := range byID {
		for _, out := range outs {
			if out.Failed {
				r.Errorf("%s failed: %s", id, out.Reason)
			}
		}
	}
}

func checkOneOutcome(r *rig) {
	d := r.destination(DestinationOptions{})
	msgs := numbered(0, 1000)
	r.allWritten(r.write(d, msgs, WriteOptions{}))
	r.exactly(msgs, r.stored(d, len(msgs)), 0)
}

func checkUnknownDestination(r *rig) {
	d := r.destination(DestinationOptions{})
	names := ability[UnknownNamer](r, d).UnknownNames()
	msgs := numbered(0, 100)
	var good []Message
	for i := range msgs {
		if i%10 == 3 {
			msgs[i].To = names[i/10%len(names)]
		} else {
			good = append(good, msgs[i])
		}
	}
	began := time.Now()
	byID := r.write(d, msgs, WriteOptions{PerMessage: true})
	if took := time.Since(began); took > 10*time.Second {
		r.Errorf("it took %v", took)
	}
	for _, m := range msgs {
		for _, out := range byID[m.ID] {
			if out.Failed != (m.To != "") || !strings.Contains(out.Reason, m.To) {
				r.Errorf("message to %q: failed %v, %q", m.To, out.Failed, out.Reason)
			}
		}
	}
	r.exactly(good, r.stored(d, len(good)), 0)
}

func checkBatchSizes(r *rig) {
	const most = 50
	d := r.destination(DestinationOptions{})
	requests := ability[BatchCounter](r, d)
	msgs := numbered(0, 10*most+20)
	r.allWritten(r.write(d, msgs, WriteOptions{BatchCount: most}))
	sum, full := 0, 0
	for _, n := range requests.WriteRequests() {
		if n > most {
			r.Errorf("a request of %d messages, at most %d may be", n, most)
		}
		if n == most {
			full++
		}
		sum += n
	}
	if sum != len(msgs) || full != len(msgs)/most {
		r.Errorf("%d messages in requests, %d of them full; want %d and %d: %v",
			sum, full, len(msgs), len(msgs)/most, requests.WriteRequests())
	}
}

func checkOrderOnWrite(r *rig) {
	d := r.destination(DestinationOptions{Ordered: true})
	msgs := keyed(numbered(0, 200))
	r.allWritten(r.write(d, msgs, WriteOptions{}))
	stored := r.stored(d, len(msgs))
	r.exactly(msgs, stored, 0)
	r.ordered(stored)
}
