package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beam-brokers/beam-brokers/internal/checks"
	"github.com/beam-brokers/beam-brokers/internal/drain"
	"github.com/beam-brokers/beam-brokers/internal/prism"
	"github.com/beam-brokers/beam-brokers/pubsubio"
)

func init() {
	register.Function1x0(countMessage)
	register.Function1x0(countResult)
	register.Function1x1(refuse)
	register.DoFn3x0[[]byte, func(pubsubio.Message), func([]byte)](&generateFn{})
	register.Emitter1[pubsubio.Message]()
	register.Emitter1[[]byte]()
}

// meter counts the elements of the run; the pipeline runs in this process.
var meter struct {
	n     atomic.Int64
	first atomic.Int64 // Unix ns
	cpu   atomic.Int64 // processor time at the first element
	all   chan result
}

func reset() {
	meter.n.Store(0)
	meter.all = make(chan result, 1)
}

// count notes one element. Time runs from the first one: the start of a job is
// not what is measured.
func count() {
	switch meter.n.Add(1) {
	case 1:
		meter.first.Store(time.Now().UnixNano())
		meter.cpu.Store(int64(processorTime()))
	case int64(*n):
		w := stopwatch{time.Unix(0, meter.first.Load()), time.Duration(meter.cpu.Load())}
		meter.all <- w.result(*n)
	}
}

func countMessage(pubsubio.Message)      { count() }
func countResult(pubsubio.PublishResult) { count() }

func refuse(m pubsubio.FailedMessage) error {
	return fmt.Errorf("publishing: %s", m.Reason)
}

// beamRead reads on Prism until every message has come, then drains.
func (f *fake) beamRead(ctx context.Context) (result, error) {
	sub, err := f.fill(ctx)
	if err != nil {
		return result{}, err
	}
	reset()
	p, s := beam.NewPipelineWithRoot()
	in := pubsubio.Read(s, pubsubio.Connection{EmulatorHost: f.address}, sub, pubsubio.MaxOutstandingMessages(outstanding), pubsubio.Runner("prism"))
	beam.ParDo0(s, countMessage, in.Messages)
	r, err := f.job(ctx, p)
	if err != nil {
		return result{}, err
	}
	return r, f.settled(ctx, sub)
}

// job runs a pipeline until all elements are counted, and ends it.
func (f *fake) job(ctx context.Context, p *beam.Pipeline) (result, error) {
	f.names++
	d := drain.Job{Pipeline: p, Runner: "prism", Client: drain.NewClient(fmt.Sprintf("bench-%d", f.names))}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case r := <-meter.all:
		stop()
		return r, <-ended
	case err := <-ended:
		select {
		case r := <-meter.all: // it ended by itself with all of them
			return r, err
		default:
			return result{}, fmt.Errorf("the job ended after %d of %d elements: %w", meter.n.Load(), *n, err)
		}
	case <-ctx.Done():
		return result{}, fmt.Errorf("%d of %d elements came: %w", meter.n.Load(), *n, ctx.Err())
	}
}

// generateFn emits the messages to be written.
type generateFn struct{ N, Size int }

// ProcessElement emits them; its second output stays empty, see prism.Escape.
func (f *generateFn) ProcessElement(_ []byte, emit func(pubsubio.Message), _ func([]byte)) {
	body := checks.Message(0, f.Size).Data
	for range f.N {
		emit(pubsubio.Message{Data: body})
	}
}

// beamWrite publishes on Prism. Time runs from before the pipeline's start of
// generating: the first outcome comes with the first answered request.
func (f *fake) beamWrite(ctx context.Context) (result, error) {
	topic, err := f.target(ctx)
	if err != nil {
		return result{}, err
	}
	reset()
	p, s := beam.NewPipelineWithRoot()
	messages, never := beam.ParDo2(s, &generateFn{*n, *size}, beam.Impulse(s))
	prism.Escape(s, never)
	out := pubsubio.Write(s, pubsubio.Connection{EmulatorHost: f.address}, messages, pubsubio.Topic(topic), pubsubio.Runner("prism"))
	beam.ParDo0(s, countResult, out.Published)
	beam.ParDo0(s, refuse, out.Failed)
	r, err := f.job(ctx, p)
	if err != nil {
		return result{}, err
	}
	return r, f.published(ctx, topic)
}
