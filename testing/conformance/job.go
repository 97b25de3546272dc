package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/beam-brokers/beam-brokers/internal/drain"
)

const (
	// patience is how long anything may take that has to happen.
	patience = 40 * time.Second
	// wrongAck is how long an acknowledgement that must not come is waited for.
	wrongAck = 400 * time.Millisecond
	// emitRest is how long a drain emits what has been received.
	emitRest = 3 * time.Second
)

// errOnPurpose fails a bundle.
var errOnPurpose = errors.New("the conformance suite fails this bundle")

// A rig is one subtest.
type rig struct {
	*testing.T
	h Harness
}

func (r *rig) destination(o DestinationOptions) Destination {
	r.Helper()
	return r.h.NewDestination(r.T, o)
}

// ability is what the destination must be able to do for the feature.
func ability[A any](r *rig, d Destination) A {
	r.Helper()
	a, ok := d.(A)
	if !ok {
		r.Fatalf("the destination is no %T: implement it, or switch the feature off with a reason", new(A))
	}
	return a
}

func (r *rig) publish(d Destination, msgs ...Message) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := d.Publish(ctx, msgs...); err != nil {
		r.Fatal(err)
	}
}

// until polls a condition.
func (r *rig) until(what string, met func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for give := time.Now().Add(patience); !met(); <-tick.C {
		if time.Now().After(give) {
			r.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// A job is a pipeline that runs on Prism in this process.
type job struct {
	*rig
	rec    *record
	client *drain.Client
	ended  chan struct{}
	err    error // once ended
	opened chan struct{}
}

// start runs a pipeline. A job that the test leaves behind is ended after it.
func (r *rig) start(rec *record, build func(s beam.Scope)) *job {
	r.Helper()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	name := "conformance-" + strings.ToLower(rand.Text())
	j := &job{rig: r, rec: rec, client: drain.NewClient(name), ended: make(chan struct{}), opened: make(chan struct{})}
	*jobopts.JobName = name
	go func() {
		defer close(j.ended)
		_, j.err = beam.Run(context.WithoutCancel(r.Context()), "prism", p)
	}()
	r.Cleanup(func() {
		j.open()
		if !j.over() {
			j.cancel()
		}
		j.client.Close()
		records.Delete(rec.key)
	})
	return j
}

// read starts a job that reads into the record.
func (r *rig) read(d Destination, rec *record, o ReadOptions) *job {
	r.Helper()
	return r.start(rec, func(s beam.Scope) {
		in, failed := d.Read(s, o)
		beam.ParDo0(s, &keepFn{Key: rec.key}, in)
		if failed.IsValid() {
			beam.ParDo0(s, &keepFailureFn{Key: rec.key}, failed)
		}
	})
}

// gate holds each bundle's end until open. entered tells that one stands there.
func (rec *record) gate(opened <-chan struct{}, then error) (entered chan int) {
	entered = make(chan int, 100)
	rec.finish = func(n int) error {
		select {
		case <-opened:
		default:
			entered <- n
			<-opened
		}
		return then
	}
	return entered
}

func (j *job) open() {
	select {
	case <-j.opened:
	default:
		close(j.opened)
	}
}

func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// wait waits for the job's end.
func (j *job) wait() error {
	j.Helper()
	j.until("end of the job", j.over)
	return j.err
}

// drain ends the job so that nothing is in hand any more.
func (j *job) drain() {
	j.Helper()
	if j.over() {
		j.Fatalf("the job has ended: %v", j.err)
	}
	lift := j.h.Drain(emitRest)
	defer lift()
	if err := j.wait(); err != nil {
		j.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := j.h.Wait(ctx); err != nil {
		j.Fatalf("waiting for the readers: %v", err)
	}
}

// cancel ends the job at once and its readers as the end of its process would.
func (j *job) cancel() {
	j.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := j.client.Cancel(ctx); err != nil {
		j.Errorf("cancelling: %v", err)
	}
	j.rec.cancelled.Store(true)
	select {
	case <-j.ended:
	case <-ctx.Done():
		j.Error("the cancelled job does not end")
	}
	j.close()
}

// failed waits for the failure of the job and ends its readers.
func (j *job) failed() {
	j.Helper()
	if err := j.wait(); err == nil {
		j.Fatal("the job has not failed")
	}
	j.close()
}

func (j *job) close() {
	j.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := j.h.Close(ctx); err != nil {
		j.Errorf("closing the readers: %v", err)
	}
}

// await waits until the job has committed n messages.
func (j *job) await(n int) {
	j.Helper()
	j.until(fmt.Sprintf("%d messages", n), func() bool { return j.over() || j.rec.tally().got >= n })
	if j.over() && j.rec.tally().got < n {
		j.Fatalf("the job has ended with %d of %d messages: %v", j.rec.tally().got, n, j.err)
	}
}

// readAll reads with a job of its own until nothing is missing of what was
// published, and drains it.
func (r *rig) readAll(d Destination, before []Message, published []Message) []Message {
	r.Helper()
	rec := newRecord()
	j := r.read(d, rec, ReadOptions{})
	all := func() []Message { return append(append([]Message(nil), before...), rec.messages()...) }
	r.until("the rest of the messages", func() bool {
		missing, _ := compare(published, all())
		return missing == 0 || j.over()
	})
	j.drain()
	return all()
}

// left checks how many messages the broker has not seen acknowledged.
func (r *rig) left(d Destination, want int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	n, err := d.Unacknowledged(ctx)
	if err != nil {
		r.Fatal(err)
	}
	if n != want {
		r.Errorf("%d messages are not acknowledged, want %d", n, want)
	}
}

// numbered makes messages with bodies that differ.
func numbered(from, n int) []Message {
	msgs := make([]Message, n)
	for i := range msgs {
		msgs[i] = Message{Body: fmt.Appendf(nil, "m-%06d", from+i)}
	}
	return msgs
}

// canonical is what of a message has to come through.
func canonical(m Message) string {
	if len(m.Attributes) == 0 {
		m.Attributes = nil
	}
	return fmt.Sprintf("%x %q %q", m.Body, m.Attributes, m.Key)
}

// compare counts the messages of want that got lacks, and those of got that are
// more than want has.
func compare(want, got []Message) (missing, more int) {
	n := map[string]int{}
	for _, m := range want {
		n[canonical(m)]++
	}
	for _, m := range got {
		n[canonical(m)]--
	}
	for _, d := range n {
		missing += max(d, 0)
		more += max(-d, 0)
	}
	return missing, more
}

// exactly checks that nothing is missing and at most so many are double.
func (r *rig) exactly(want, got []Message, duplicates int) {
	r.Helper()
	missing, more := compare(want, got)
	if missing > 0 || more > duplicates {
		r.Errorf("%d messages: missing %d, duplicates %d; at most 0 and %d", len(want), missing, more, duplicates)
	}
}
