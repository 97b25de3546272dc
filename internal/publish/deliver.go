package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A delivery takes one batch from its first attempt to its outcomes. It runs in
// one goroutine.
type delivery[M, R any] struct {
	p       *Publisher[M, R]
	t       *target
	b       Batch[M]
	client  int
	started time.Time
	total   context.Context // ends with Policy.Total
	out     []Outcome[M, R]
}

// deliver returns one outcome per message of b, or an error when ctx ended
// first: then nothing is known of the batch as a whole.
func (p *Publisher[M, R]) deliver(ctx context.Context, t *target, b Batch[M]) ([]Outcome[M, R], error) {
	d := &delivery[M, R]{p: p, t: t, b: b, client: p.clientFor(b, t), started: time.Now(), total: ctx}
	if p.Policy.Total > 0 {
		var cancel context.CancelFunc
		d.total, cancel = context.WithTimeout(ctx, p.Policy.Total)
		defer cancel()
	}
	defer t.done(d.client)
	d.out = make([]Outcome[M, R], len(b.Messages))
	all := make([]int, len(b.Messages))
	for i, m := range b.Messages {
		d.out[i].Message, all[i] = m, i
	}
	d.run(ctx, all)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.out, nil
}

// run settles the messages at the places idx, unless ctx ends.
func (d *delivery[M, R]) run(ctx context.Context, idx []int) {
	wait := d.p.Policy.FirstWait
	for attempt := 1; len(idx) > 0 && ctx.Err() == nil; attempt++ {
		if cause := d.held(); cause != nil {
			d.settle(idx, &HeldError{cause}, false)
			return
		}
		retry, blame := d.attempt(idx)
		if blame != nil {
			if len(idx) == 1 {
				d.settle(idx, blame, true)
				return
			}
			half := len(idx) / 2 // one after the other: order may count
			d.run(ctx, idx[:half])
			d.run(ctx, idx[half:])
			return
		}
		idx = retry
		if len(idx) == 0 || ctx.Err() != nil {
			return
		}
		if attempt >= d.p.Policy.MaxAttempts {
			d.giveUp(idx, fmt.Sprintf("after %d attempts", attempt))
			return
		}
		if !sleep(d.total, jitter(wait)) {
			if ctx.Err() == nil {
				d.giveUp(idx, fmt.Sprintf("after %d attempts in %v", attempt, d.p.Policy.Total))
			}
			return
		}
		wait = min(2*wait, d.p.Policy.LastWait)
	}
}

// attempt makes one call for the messages at idx. It settles what the answer
// decides and returns the places worth another try, with their last error kept
// in the outcome; or blame, when one unnamed message spoils the call.
func (d *delivery[M, R]) attempt(idx []int) (retry []int, blame error) {
	ctx, timeout := d.total, d.p.Policy.Attempt
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	b := d.b
	if len(idx) < len(d.b.Messages) {
		b.Messages = make([]M, len(idx))
		for i, at := range idx {
			b.Messages[i] = d.b.Messages[at]
		}
	}
	for _, at := range idx {
		d.out[at].Attempts++
	}
	replies, err := d.p.Send(ctx, d.client, b)
	if err == nil && len(replies) != len(idx) {
		err = fmt.Errorf("matching answers to messages: %d answers for %d messages", len(replies), len(idx))
	}
	if err != nil {
		v := d.p.Classify(err)
		if v.NotSent {
			for _, at := range idx {
				d.out[at].Attempts--
			}
		}
		if v.Blame {
			return nil, err
		}
		replies = make([]Reply[R], len(idx))
		for i := range replies {
			replies[i].Err = err
		}
	}
	for i, r := range replies {
		if d.reply(idx[i], r) {
			retry = append(retry, idx[i])
		}
	}
	return retry, nil
}

// reply notes the answer for one message and says whether to try it again.
func (d *delivery[M, R]) reply(at int, r Reply[R]) (again bool) {
	o := &d.out[at]
	if r.Err == nil {
		o.Value, o.Err, o.Unknown, o.Latency = r.Value, nil, false, time.Since(d.started)
		return false
	}
	v := d.p.Classify(r.Err)
	o.Err, o.Unknown = r.Err, o.Unknown || v.Unknown
	if v.Retry {
		return true
	}
	d.settle([]int{at}, r.Err, !v.Unknown)
	return false
}

// giveUp settles messages whose last error was a retryable one.
func (d *delivery[M, R]) giveUp(idx []int, when string) {
	for _, at := range idx {
		d.settle([]int{at}, fmt.Errorf("giving up %s: %w", when, d.out[at].Err), false)
	}
}

// settle makes err the final outcome of the messages at idx, and holds their
// key where that is wanted.
func (d *delivery[M, R]) settle(idx []int, err error, permanent bool) {
	for _, at := range idx {
		o := &d.out[at]
		o.Err, o.Latency = err, time.Since(d.started)
		o.Permanent = permanent && !o.Unknown
	}
	var held *HeldError
	if d.b.Order != "" && d.p.Hold && !errors.As(err, &held) {
		d.t.hold(d.holdKey(), err)
	}
}

func (d *delivery[M, R]) held() error {
	if d.b.Order == "" || !d.p.Hold {
		return nil
	}
	return d.t.heldFor(d.holdKey())
}

func (d *delivery[M, R]) holdKey() string { return d.p.HoldScope + "\x00" + d.b.Order }

// jitter returns d less up to a third of it.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/3)
}

// sleep waits for d and returns false when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
