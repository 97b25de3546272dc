package publish

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestEachMessageHasExactlyOneOutcome sends random batches through a broker
// that delays, refuses and loses at random. Whatever it does, every message has
// one outcome; what is stored is not called failed unless it is unknown; what
// is published is stored; and a key's messages are stored in order.
func TestEachMessageHasExactlyOneOutcome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		batches := rapid.SliceOfN(rapid.IntRange(1, 20), 1, 30).Draw(rt, "sizes")
		keys := rapid.IntRange(0, 3).Draw(rt, "keys")
		window := rapid.IntRange(1, 6).Draw(rt, "window")
		hold := rapid.Bool().Draw(rt, "hold")
		synctest.Test(t, func(t *testing.T) {
			oneRun(t, seed, batches, keys, window, hold)
		})
	})
}

func oneRun(t *testing.T, seed uint64, sizes []int, keys, window int, hold bool) {
	f := &fake{}
	rnd := rand.New(rand.NewPCG(seed, 1))
	fault := func() (time.Duration, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		faults := []error{nil, nil, nil, errBusy, errLost, errRefused, errBad}
		return time.Duration(rnd.IntN(1500)) * time.Millisecond, faults[rnd.IntN(len(faults))]
	}
	p := f.publisher(t)
	p.Window = Room{Batches: window}
	p.Policy.MaxAttempts = 3
	p.Hold, p.HoldScope = hold, crand.Text() // a held key is held for as long as the process lives
	p.Send = func(ctx context.Context, client int, b Batch[string]) ([]Reply[int], error) {
		pause, err := fault()
		if !sleep(ctx, pause) {
			return nil, ctx.Err()
		}
		if err != nil && err != errLost {
			return nil, err
		}
		replies, _ := f.send(ctx, client, b)
		return replies, err // a lost answer: stored all the same
	}
	var bs []Batch[string]
	for i, n := range sizes {
		order := ""
		if keys > 0 && i%(keys+1) > 0 {
			order = string(rune('a' + i%(keys+1)))
		}
		bs = append(bs, batchOf(order, i*20, n))
	}
	out := publish(t, p, bs...)
	checkOnce(t, out, bs...)

	stored := map[string]int{}
	for _, m := range f.stored {
		stored[m]++
	}
	for _, o := range out {
		if o.Err == nil && stored[o.Message] == 0 {
			t.Errorf("%s is published and not stored", o.Message)
		}
		if o.Err != nil && !o.Unknown && stored[o.Message] > 0 {
			t.Errorf("%s is stored and said to have failed: %+v", o.Message, o)
		}
	}
	last := map[byte]string{}
	for _, m := range f.stored {
		if stored[m] > 1 || m[0] < 'a' {
			continue // a repeat after a lost answer; or no order asked
		}
		if last[m[0]] > m {
			t.Errorf("%s stored after %s", m, last[m[0]])
		}
		last[m[0]] = m
	}
}
