package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/beam-brokers/beam-brokers/internal/drain"
	"github.com/beam-brokers/beam-brokers/internal/prism"
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
	client   *drain.Client

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
		Warnings: s.notices(), client: drain.NewClient(name), state: stateStarting,
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
// back. It also ends when the source does. now, when it is closed, stops at
// once; messages that are not acknowledged then come again.
//
// The error is nil when every message that was taken is settled or given back
// on purpose.
func (j *Job) Run(ctx context.Context, now <-chan struct{}) error {
	defer forgetCounters(j.name)
	j.to(stateRunning)
	d := drain.Job{
		Pipeline: j.pipeline, Runner: j.config.runner(), Client: j.client, Now: now,
		Draining: func() { j.to(stateDraining) },
		Stuck:    func() bool { return j.counters.Retrying.Load() > 0 },
	}
	err := d.Run(ctx)
	if reason := j.counters.Failure(); reason != "" {
		err = errors.New(reason) // says more plainly what the runner said
	}
	if err != nil {
		j.to(stateFailed)
		return err
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
