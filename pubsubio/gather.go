package pubsubio

import (
	"time"

	"github.com/beam-brokers/beam-brokers/internal/commit"
	"github.com/beam-brokers/beam-brokers/internal/queue"
)

const (
	// idlePoll and idlePolls: availableNow takes the queue for empty after three
	// polls of a second that found nothing.
	idlePoll  = time.Second
	idlePolls = 3
	// longGather bounds a bundle of availableNow where nothing else does.
	longGather = time.Minute
	// emitRest bounds how long the rest of the buffer is emitted at a limit time.
	emitRest = time.Minute
)

// limits says how the next call gathers, from the options and from what the
// reader has seen of the runner so far.
func (c *readConfig) limits(p commit.Policy, pace queue.Pace) queue.Limits {
	l := queue.DefaultLimits(c.Runner, p)
	l.Messages, l.Bytes = c.BatchCount, c.BatchSize
	if c.GatherMode == GatherImmediate {
		l.Quiet = queue.Immediate
	}
	interval := c.interval(pace)
	switch {
	case c.Trigger == TriggerAvailableNow:
		l.Length, l.Gather = longGather, true
		if c.ReceiveTime > 0 {
			l.Length = c.ReceiveTime
		}
		l.First = idlePoll
		if l.Quiet == 0 {
			l.Quiet = idlePoll
		}
	case c.ReceiveTime > 0:
		l.Length, l.Gather, l.Every = c.ReceiveTime, true, c.ProcessingTime
	case interval > 0:
		l.Length, l.Gather, l.Every = receiveTime(interval, pace.Write), true, c.ProcessingTime
	}
	return l
}

// interval is the time between bundles that somebody chose, 0 where nobody did:
// the one that was given, else a runner's that was measured. gatherMode
// immediate does not follow a measured one: it wants latency.
func (c *readConfig) interval(pace queue.Pace) time.Duration {
	switch {
	case c.ProcessingTime > 0:
		return c.ProcessingTime
	case c.GatherMode == GatherBatch:
		return pace.Interval
	default:
		return 0
	}
}

// receiveTime leaves of the interval what the write and a margin need. Before
// the first commit a quarter is kept for the write.
func receiveTime(interval, write time.Duration) time.Duration {
	if write == 0 {
		write = interval / 4
	}
	margin := max(time.Second, interval/60)
	return max(interval-write-margin, interval/10)
}
