// Package drain runs pipelines that read from queues until they are asked to
// stop, and stops them so that nothing is lost: receiving ends, what is in hand
// is emitted and committed, the rest is given back.
//
// Cancelling the context of beam.Run is no way to stop: Prism panics on it. So
// the sources are told to end, and the job ends by itself. One that does not is
// cancelled at its job server.
package drain

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// How a job stops. All of it together is less than 15 s, after which
// supervisors commonly kill.
const (
	// emitFor is how long a drain goes on emitting what has been received.
	emitFor = 4 * time.Second
	// drainFor is how long a drain may take until the job is cancelled.
	drainFor = 12 * time.Second
	// stuckFor is drainFor while the job says that it is stuck.
	stuckFor = 3 * time.Second
	// cancelFor is how long the job may take to end once it is cancelled.
	cancelFor = time.Second
	// closeFor is how long the readers may take to give back what they hold.
	closeFor = 1500 * time.Millisecond
)

// A Job is a pipeline to run. A process runs one at a time, because stopping
// stops every reader of the process.
type Job struct {
	Pipeline *beam.Pipeline
	// Runner is the runner's name.
	Runner string
	// Client is made with the name that the job gets.
	Client *Client
	// Now, when it is closed, stops at once: messages that are not acknowledged
	// then come again. May be nil.
	Now <-chan struct{}
	// Draining, when set, is called once when ctx has ended.
	Draining func()
	// Stuck, when set, tells that waiting for the job is no use.
	Stuck func() bool
}

// Run runs the job until ctx ends, and then drains it. It also ends when the
// sources do. The error is nil when every message that was taken is settled, or
// was given back on purpose.
func (j *Job) Run(ctx context.Context) error {
	defer j.Client.Close()
	before := *jobopts.JobName
	*jobopts.JobName = j.Client.name // read when the job is submitted
	defer func() { *jobopts.JobName = before }()
	ended := make(chan error, 1)
	// beam.Run must not see ctx end.
	whole := context.WithoutCancel(ctx)
	go func() { ended <- j.run(whole) }()
	select {
	case err := <-ended:
		settle(whole, err)
		return err
	case <-ctx.Done():
	}
	if j.Draining != nil {
		j.Draining()
	}
	lift := queue.DrainAll(emitFor)
	defer lift()
	done, err := j.wait(ended)
	if !done {
		j.cancel(whole, ended)
	}
	settle(whole, err)
	return err
}

// run runs the pipeline; a panic of the runner's is an error.
func (j *Job) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("running on %s: %v", j.Runner, p)
		}
	}()
	if _, err = beam.Run(ctx, j.Runner, j.Pipeline); err != nil {
		return fmt.Errorf("running on %s: %w", j.Runner, err)
	}
	return nil
}

// wait waits for the end of the job while that is worth waiting for.
func (j *Job) wait(ended <-chan error) (done bool, err error) {
	limit := time.NewTimer(drainFor)
	defer limit.Stop()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	begin := time.Now()
	for {
		select {
		case err := <-ended:
			return true, err
		case <-j.Now:
			slog.Warn("stopping at once; what is in flight will be delivered again")
			return false, nil
		case <-limit.C:
			slog.Warn("draining took too long; what is in flight is given back", "after", drainFor)
			return false, nil
		case <-look.C:
			if j.Stuck != nil && time.Since(begin) > stuckFor && j.Stuck() {
				slog.Warn("the job cannot be drained; what is in flight is given back", "after", stuckFor)
				return false, nil
			}
		}
	}
}

// cancel ends the job, for a moment's wait.
func (j *Job) cancel(ctx context.Context, ended <-chan error) {
	ctx, stop := context.WithTimeout(ctx, cancelFor)
	defer stop()
	if err := j.Client.Cancel(ctx); err != nil {
		slog.Warn("cancelling the job", "error", err)
	}
	select {
	case err := <-ended:
		slog.Debug("the job has ended", "error", err) // the cancelling, most likely
	case <-ctx.Done():
	}
}

// settle gives back what the readers hold when the job has ended. After a
// failure nothing of the failed bundle stands, and nothing more may come in.
func settle(ctx context.Context, err error) {
	ctx, stop := context.WithTimeout(ctx, closeFor)
	defer stop()
	if err != nil {
		lift := queue.DrainAll(0)
		defer lift()
	} else {
		short, stop := context.WithTimeout(ctx, closeFor/2)
		defer stop()
		_ = queue.WaitClosed(short) // those that are late are closed below
	}
	if err := queue.CloseAll(ctx); err != nil {
		slog.Warn("giving back messages; they will come again when their leases end", "error", err)
	}
}
