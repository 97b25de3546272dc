package clients

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker counts the fake clients that a pool opens and closes.
type broker struct {
	opened, closed, peak atomic.Int64
	fail                 atomic.Bool
	delay                time.Duration
}

type client struct{ b *broker }

var errDown = errors.New("broker is down")

func (b *broker) open(ctx context.Context) (*client, error) {
	if b.delay > 0 {
		select {
		case <-time.After(b.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.fail.Load() {
		b.opened.Add(1)
		b.closed.Add(1)
		return nil, errDown
	}
	open := b.opened.Add(1) - b.closed.Load()
	for p := b.peak.Load(); open > p && !b.peak.CompareAndSwap(p, open); p = b.peak.Load() {
	}
	return &client{b}, nil
}

func newPool() *Pool[*client] {
	return NewPool(DefaultIdle, func(c *client) error { c.b.closed.Add(1); return nil })
}

func mustGet(t *testing.T, p *Pool[*client], b *broker, k Key) *Lease[*client] {
	t.Helper()
	l, err := p.Get(t.Context(), k, b.open)
	if err != nil {
		t.Fatalf("Get(%+v): %v", k, err)
	}
	return l
}

func TestManyUsersShareOneClientPerIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{delay: time.Second}, newPool()
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				l, err := p.Get(t.Context(), Key{"host", "v1", i % 4}, b.open)
				if err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
				l.Release()
				l.Release() // harmless
			})
		}
		wg.Wait()
		if n := b.opened.Load(); n != 4 {
			t.Errorf("opened %d clients, want 4", n)
		}
		time.Sleep(DefaultIdle - time.Second)
		synctest.Wait()
		if n := b.closed.Load(); n != 0 {
			t.Errorf("closed %d clients before their idle time", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := b.closed.Load(); n != 4 || p.Len() != 0 {
			t.Errorf("closed %d clients, %d left, want 4 and 0", n, p.Len())
		}
	})
}

func TestUseRestartsTheIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{}, newPool()
		for range 5 {
			mustGet(t, p, b, Key{Target: "host"}).Release()
			time.Sleep(DefaultIdle * 2 / 3)
		}
		if o, c := b.opened.Load(), b.closed.Load(); o != 1 || c != 0 {
			t.Errorf("opened %d, closed %d, want 1 and 0", o, c)
		}
		time.Sleep(DefaultIdle)
		synctest.Wait()
		if b.closed.Load() != 1 {
			t.Error("client is open after its idle time")
		}
	})
}

func TestChangedCredentialsDrainTheOldClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{}, newPool()
		old := mustGet(t, p, b, Key{"host", "v1", 0})
		unused := mustGet(t, p, b, Key{"host", "v1", 1})
		unused.Release()

		fresh := mustGet(t, p, b, Key{"host", "v2", 0})
		other := mustGet(t, p, b, Key{"host", "v2", 1})
		if fresh.Client == old.Client {
			t.Fatal("the new version got the old client")
		}
		synctest.Wait()
		if n := b.closed.Load(); n != 1 {
			t.Fatalf("closed %d, want the unused old client only", n)
		}
		old.Release()
		synctest.Wait()
		if n := b.closed.Load(); n != 2 {
			t.Errorf("closed %d, want the drained client too", n)
		}
		if again := mustGet(t, p, b, Key{"host", "v2", 0}); again.Client != fresh.Client {
			t.Error("a second client of the new version was opened")
		} else {
			again.Release()
		}
		fresh.Release()
		other.Release()
		p.CloseIdle()
		if o, c := b.opened.Load(), b.closed.Load(); o != c || p.Len() != 0 {
			t.Errorf("opened %d, closed %d, %d left", o, c, p.Len())
		}
		if len(p.current) != 0 {
			t.Errorf("versions left behind: %v", p.current)
		}
	})
}

func TestFailedOpenIsRetriedWithGrowingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{}, newPool()
		b.fail.Store(true)
		k := Key{Target: "host"}
		for range 100 {
			_, err := p.Get(t.Context(), k, b.open)
			var oe *OpenError
			if !errors.As(err, &oe) || !errors.Is(err, errDown) {
				t.Fatalf("Get = %v, want an OpenError of %v", err, errDown)
			}
			if oe.Wait <= 0 || oe.Wait > lastRetry {
				t.Fatalf("Wait = %v", oe.Wait)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// 10 s at 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 s: 7 opens, not 100.
		if n := b.opened.Load(); n < 4 || n > 8 {
			t.Errorf("broker was asked %d times in 10 s", n)
		}
		b.fail.Store(false)
		time.Sleep(lastRetry)
		mustGet(t, p, b, k).Release()
		if len(p.broken) != 0 {
			t.Error("the failure outlived the success")
		}
		p.CloseIdle()
	})
}

func TestOldFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{}, newPool()
		b.fail.Store(true)
		for i := range 50 {
			_, _ = p.Get(t.Context(), Key{Target: string(rune('a' + i))}, b.open)
		}
		time.Sleep(2 * DefaultIdle)
		_, _ = p.Get(t.Context(), Key{Target: "last"}, b.open)
		if n := len(p.broken); n != 1 {
			t.Errorf("%d failures kept, want 1", n)
		}
	})
}

func TestWaiterOpensItselfWhenTheOpenerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{delay: time.Minute}, newPool()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.Get(short, Key{Target: "host"}, b.open); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("opener got %v, want its deadline", err)
			}
		})
		synctest.Wait()
		mustGet(t, p, b, Key{Target: "host"}).Release()
		wg.Wait()
		if b.opened.Load() != 1 || len(p.broken) != 0 {
			t.Errorf("opened %d, failures %d", b.opened.Load(), len(p.broken))
		}
		p.CloseIdle()
	})
}

func TestWaiterLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{delay: time.Minute}, newPool()
		var wg sync.WaitGroup
		wg.Go(func() { mustGet(t, p, b, Key{Target: "host"}).Release() })
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Get(short, Key{Target: "host"}, b.open); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiter got %v, want its deadline", err)
		}
		wg.Wait()
		time.Sleep(2 * DefaultIdle)
		synctest.Wait()
		if b.opened.Load() != 1 || b.closed.Load() != 1 {
			t.Errorf("opened %d, closed %d, want 1 and 1", b.opened.Load(), b.closed.Load())
		}
	})
}

func TestF04FiftyFailingStartsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := &broker{delay: time.Hour}, newPool()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := p.Get(ctx, Key{Target: "wrong host"}, b.open); err == nil {
				t.Error("a start against a mute host succeeded")
			}
			cancel()
		}
		if p.Len() != 0 || len(p.broken) != 0 {
			t.Errorf("%d entries, %d failures left", p.Len(), len(p.broken))
		}
	})
}
