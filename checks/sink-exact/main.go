// Command sink-exact checks exact batching against the fake service: what
// trickles in is published in batches of 50 or after 5 s, and of many messages
// each has one outcome, in full batches.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beam-brokers/beam-brokers/pubsubio"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const (
	project = "check-project"
	topic   = "projects/check-project/topics/orders"
)

func init() {
	register.DoFn4x1[context.Context, *sdf.LockRTracker, []byte, func(pubsubio.Message), sdf.ProcessContinuation](&trickleFn{})
	register.Emitter1[pubsubio.Message]()
	register.Function1x0(countPublished)
	register.Function1x0(countFailed)
}

// outcomes counts the outcomes of each message of the pipeline that runs.
var outcomes struct {
	sync.Mutex
	byID   map[string]int
	failed int
}

func countPublished(r pubsubio.PublishResult) {
	outcomes.Lock()
	defer outcomes.Unlock()
	outcomes.byID[r.ID]++
}

func countFailed(f pubsubio.FailedMessage) {
	outcomes.Lock()
	defer outcomes.Unlock()
	outcomes.byID[f.Message.MessageID]++
	outcomes.failed++
}

// trickleFn emits N messages, Per of them in a bundle, one bundle each Gap.
type trickleFn struct {
	N, Per int64
	Gap    time.Duration
}

// CreateInitialRestriction returns all messages.
func (f *trickleFn) CreateInitialRestriction(_ []byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: f.N}
}

// SplitRestriction keeps them in one piece.
func (f *trickleFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

// RestrictionSize is the number of messages.
func (f *trickleFn) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

// CreateTracker tracks them.
func (f *trickleFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

// ProcessElement emits one bundle.
func (f *trickleFn) ProcessElement(_ context.Context, rt *sdf.LockRTracker, _ []byte, emit func(pubsubio.Message)) sdf.ProcessContinuation {
	start := rt.GetRestriction().(offsetrange.Restriction).Start
	for i := start; rt.TryClaim(i); i++ {
		id := fmt.Sprintf("id-%06d", i)
		emit(pubsubio.Message{MessageID: id, Data: []byte(id)})
		if i+1-start == f.Per {
			return sdf.ResumeProcessingIn(f.Gap)
		}
	}
	return sdf.StopProcessing()
}

// run writes the messages and returns the publish requests that the service saw.
func run(src *trickleFn) ([]pubsubfake.PublishRequest, error) {
	srv := pubsubfake.New()
	defer srv.Close()
	addr, err := srv.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := srv.AddTopic(topic); err != nil {
		return nil, err
	}
	outcomes.byID, outcomes.failed = map[string]int{}, 0
	p, s := beam.NewPipelineWithRoot()
	col := beam.ParDo(s, src, beam.Impulse(s))
	conn := pubsubio.Connection{ProjectID: project, EmulatorHost: addr}
	w := pubsubio.Write(s, conn, col, pubsubio.Topic("orders"), pubsubio.BatchExact, pubsubio.MaxWorkers(1))
	beam.ParDo0(s, countPublished, w.Published)
	beam.ParDo0(s, countFailed, w.Failed)
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		return nil, fmt.Errorf("running the pipeline: %w", err)
	}
	return srv.TopicStats(topic).RequestLog, once(src.N)
}

// once checks that each message has one outcome, Published.
func once(n int64) error {
	var errs []error
	for i := range n {
		id := fmt.Sprintf("id-%06d", i)
		if k := outcomes.byID[id]; k != 1 && len(errs) < 5 {
			errs = append(errs, fmt.Errorf("%s has %d outcomes", id, k))
		}
	}
	if int64(len(outcomes.byID)) != n || outcomes.failed != 0 {
		errs = append(errs, fmt.Errorf("%d messages with outcomes of %d, %d failed", len(outcomes.byID), n, outcomes.failed))
	}
	return errors.Join(errs...)
}

func dribble() (string, error) {
	start := time.Now()
	reqs, err := run(&trickleFn{N: 120, Per: 1, Gap: 20 * time.Millisecond})
	if err != nil {
		return "", err
	}
	var sizes []int
	for _, q := range reqs {
		sizes = append(sizes, q.Messages)
	}
	line := fmt.Sprintf("dribble: batches %v", sizes)
	if fmt.Sprint(sizes) != "[50 50 20]" {
		return line, errors.New("want [50 50 20]")
	}
	// The first message of the third batch came after the second batch's last.
	wait := reqs[2].Time.Sub(reqs[1].Time)
	line += fmt.Sprintf(", the third %v after the second, all in %v", wait.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	if wait > 6*time.Second {
		return line, errors.New("the third batch came later than 5 s + 1 s after its first message")
	}
	return line, nil
}

func bulk(n int64) (string, error) {
	reqs, err := run(&trickleFn{N: n, Per: 1030})
	if err != nil {
		return "", err
	}
	full := 0
	for _, q := range reqs {
		if q.Messages > 50 {
			return "", fmt.Errorf("a request of %d messages", q.Messages)
		}
		if q.Messages == 50 {
			full++
		}
	}
	share := 100 * float64(full) / float64(len(reqs))
	line := fmt.Sprintf("bulk: %d messages, %d outcomes, %d requests, %.2f%% full", n, len(outcomes.byID), len(reqs), share)
	if share < 99 {
		return line, errors.New("fewer than 99% of the requests are full")
	}
	return line, nil
}

func main() {
	n := flag.Int64("n", 100_000, "messages of the bulk part")
	flag.Parse()
	beam.Init()
	slog.SetLogLoggerLevel(slog.LevelWarn)
	one, err := dribble()
	two := ""
	if err == nil {
		two, err = bulk(*n)
	}
	if err != nil {
		fmt.Printf("check-sink-exact: FAILED: %s %s: %v\n", one, two, err)
		os.Exit(1)
	}
	fmt.Printf("check-sink-exact: ok: %s; %s\n", one, two)
}
