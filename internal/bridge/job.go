package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/beam-brokers/beam-brokers/internal/prism"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// How a bridge stops. All of it together is less than 15 s, after which
// supervisors commonly kill.
const (
	// emitFor is how long a drain goes on emitting what has been received.
	emitFor = 4 * time.Second
	// drainFor is how long a drain may take until the job is cancelled.
	drainFor = 12 * time.Second
	// retryingFor is drainFor while a message is being tried again for ever.
	retryingFor = 3 * time.Second
	// cancelFor is how long the job may take to end once it is cancelled.
	cancelFor = time.Second
	// closeFor is how long the readers may take to give back what they hold.
	closeFor = 1500 * time.Millisecond
)

// A Job is one run of a bridge. A process runs one at a time, because stopping
// stops every reader of the process.
type Job struct {
	// Warnings are lines to be said before the start.
	Warnings []string

	config   Config
	sides    *sides
	name     string
	counters *Counters
	pipeline *beam.Pipeline
	client   jobClient

	mu    sync.Mutex
	state string
}

// The states of a Job, as health and the live page show them.
const (
	stateStarting = "starting"
	stateRunning  = "running"
	stateDraining = "draining"
	stateStopped  = "stopped"
	stateFailed   = "failed"
)

// New checks the configuration and builds the pipeline. It connects to nothing.
// An error that holds a *Mistake is the user's to put right: it joins every
// mistake, one a line.
func New(c Config) (*Job, error) {
	if err := c.setBeamFlags(); err != nil {
		return nil, err
	}
	s, err := c.validate()
	if err != nil {
		return nil, err
	}
	name := *jobopts.JobName
	if name == "" {
		name = "bridge-" + strings.ToLower(rand.Text()[:10])
	}
	j := &Job{
		config: c, sides: s, name: name, counters: countersOf(name),
		Warnings: s.notices(), client: jobClient{name: name}, state: stateStarting,
	}
	j.pipeline = s.build(name, c.OnFailure)
	if err := j.checkBoundaries(); err != nil {
		return nil, err
	}
	return j, nil
}

// checkBoundaries warns where a kill -9 on Prism can lose messages.
func (j *Job) checkBoundaries() error {
	if !prism.MayBe(j.config.runner()) {
		return nil
	}
	found, err := boundaries(context.Background(), j.pipeline)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	why := j.sides.to.Boundary
	if why == "" && j.sides.deadLetter != nil {
		why = j.sides.deadLetter.Boundary
	}
	if why != "" {
		why = " (" + why + ")"
	}
	j.Warnings = append(j.Warnings, fmt.Sprintf("not crash safe on Prism%s: it keeps in memory what lies behind %s, so a killed bridge loses messages that are acknowledged already; stopping it with SIGTERM loses none",
		why, strings.Join(found, ", ")))
	return nil
}

// Counters are the job's counters.
func (j *Job) Counters() *Counters { return j.counters }

// Check connects to both sides and looks for what is read and written. It takes
// and writes no message.
func (j *Job) Check(ctx context.Context) (warnings []string, err error) {
	type check struct {
		where, name string
		f           func(context.Context) ([]string, error)
	}
	checks := []check{{"from", j.sides.from.Name, j.sides.from.Check}, {"to", j.sides.to.Name, j.sides.to.Check}}
	if d := j.sides.deadLetter; d != nil {
		checks = append(checks, check{"dead-letter", d.Name, d.Check})
	}
	found, errs := make([][]string, len(checks)), make([]error, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			ws, err := c.f(ctx)
			for _, w := range ws {
				found[i] = append(found[i], c.where+": "+w)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.where, err)
			}
		})
	}
	wg.Wait()
	for _, ws := range found {
		warnings = append(warnings, ws...)
	}
	return warnings, errors.Join(errs...)
}

// Run runs the bridge until ctx ends, and then drains it: nothing more is
// received, what is in hand is written and acknowledged, the rest is given
// back. It also ends when the source does. now, when it is closed, cancels the
// job at once; messages that are not acknowledged then come again.
//
// The error is nil when every message that was taken is settled or given back
// on purpose.
func (j *Job) Run(ctx context.Context, now <-chan struct{}) error {
	defer forgetCounters(j.name)
	defer j.client.close()
	*jobopts.JobName = j.name
	ended := make(chan error, 1)
	j.to(stateRunning)
	// beam.Run must not see ctx end: Prism panics on that.
	go func() { ended <- j.run(context.WithoutCancel(ctx)) }()
	select {
	case err := <-ended:
		return j.over(ctx, err)
	case <-ctx.Done():
	}
	j.to(stateDraining)
	lift := queue.DrainAll(emitFor)
	defer lift()
	err, done := j.drained(ended, now)
	if !done {
		j.cancel(context.WithoutCancel(ctx), ended)
		err = nil // the job was ended; what it had not settled is given back
	}
	return j.over(ctx, err)
}

// run runs the pipeline; a panic of its construction is an error.
func (j *Job) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("running on %s: %v", j.config.runner(), p)
		}
	}()
	_, err = beam.Run(ctx, j.config.runner(), j.pipeline)
	return err
}

// drained waits for the end of the job while that is worth waiting for.
func (j *Job) drained(ended <-chan error, now <-chan struct{}) (err error, done bool) { //nolint:revive // err is the job's, not this function's
	limit := time.NewTimer(drainFor)
	defer limit.Stop()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	start := time.Now()
	for {
		select {
		case err := <-ended:
			return err, true
		case <-now:
			slog.Warn("stopping at once; what is in flight will be delivered again")
			return nil, false
		case <-limit.C:
			slog.Warn("draining took too long; what is in flight is given back", "after", drainFor)
			return nil, false
		case <-look.C:
			if j.counters.Retrying.Load() > 0 && time.Since(start) > retryingFor {
				slog.Warn("a message that cannot be written is given back", "messages", j.counters.Retrying.Load())
				return nil, false
			}
		}
	}
}

// cancel ends the job, for a moment's wait.
func (j *Job) cancel(ctx context.Context, ended <-chan error) {
	ctx, stop := context.WithTimeout(ctx, cancelFor)
	defer stop()
	if err := j.client.cancel(ctx); err != nil {
		slog.Warn("cancelling the job", "error", err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// over settles what is left when the job has ended.
func (j *Job) over(ctx context.Context, err error) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
	defer stop()
	if err != nil {
		// Nothing of the failed bundle stands; receive no more and give it back.
		lift := queue.DrainAll(0)
		defer lift()
	} else {
		wait, stop := context.WithTimeout(ctx, closeFor/2)
		defer stop()
		_ = queue.WaitClosed(wait) // those that are late are closed below
	}
	if cerr := queue.CloseAll(ctx); cerr != nil {
		slog.Warn("giving back messages; they will come again when their leases end", "error", cerr)
	}
	if reason := j.counters.Failure(); reason != "" {
		j.to(stateFailed)
		return errors.New(reason)
	}
	if err != nil {
		j.to(stateFailed)
		return fmt.Errorf("running on %s: %w", j.config.runner(), err)
	}
	j.to(stateStopped)
	return nil
}

func (j *Job) to(state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state = state
}

// State is what the job is doing: starting, running, draining, stopped, failed.
func (j *Job) State() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}
