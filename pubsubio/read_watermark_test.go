package pubsubio

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// follow makes calls for a while and fails when the watermark goes back, into
// the future, or past a message that is emitted later.
func (r *readRig) follow(d time.Duration) (calls int) {
	r.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); calls++ {
		before := r.watermark()
		b := r.call().commit()
		if b.err != nil {
			r.Fatal(b.err)
		}
		for i, et := range b.times {
			if et.ToTime().Before(before) {
				r.Fatalf("%s, of %v, is late: the watermark was %v", b.got[i].Data, et.ToTime(), before)
			}
		}
		if r.watermark().Before(before) {
			r.Fatalf("the watermark went back from %v to %v", before, r.watermark())
		}
		if r.watermark().After(time.Now()) {
			r.Fatalf("the watermark %v is ahead of %v", r.watermark(), time.Now())
		}
		b.pause()
	}
	return calls
}

func TestF16WatermarkFollowsTheClockWhereNothingComes(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		r.follow(60 * time.Second)
		if lag := time.Since(r.watermark()); lag > 15*time.Second {
			t.Errorf("an empty source's watermark is %v behind", lag)
		}
		r.publish(100) // none of them may be late
		r.follow(10 * time.Second)
		if s := r.stats(); s.Acked != 100 {
			t.Fatalf("%+v", s)
		}
		r.follow(2 * time.Minute)
		if lag := time.Since(r.watermark()); lag > 15*time.Second {
			t.Errorf("a quiet source's watermark is %v behind", lag)
		}
		if lag := time.Duration(r.reader().Stats().WatermarkLag.Load()); lag < 5*time.Second || lag > 15*time.Second {
			t.Errorf("the metric says %v", lag)
		}
	})
}

// A service that is down holds the watermark: what it has may be old.
func TestF16WatermarkWaitsForABrokerThatIsDown(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		r.publish(10)
		r.follow(10 * time.Second)
		f := r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unavailable})
		r.srv.DropConnections()
		r.follow(5 * time.Second)
		held := r.watermark()
		r.publishFrom(10, 10) // while it cannot be read
		r.follow(3 * time.Minute)
		if !r.watermark().Equal(held) {
			t.Errorf("the watermark moved on by %v while nothing could be received", r.watermark().Sub(held))
		}
		f.Remove()
		r.follow(40 * time.Second)
		if s := r.stats(); s.Acked != 20 {
			t.Errorf("%+v", s)
		}
	})
}

// Messages whose bundle failed come again and are not late.
func TestF16GivenBackMessagesHoldTheWatermark(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source(AckDeadline(10 * time.Second))
		r.publish(50)
		r.follow(100 * time.Millisecond)
		for range 20 {
			r.publish(20)
			time.Sleep(time.Second)
			r.fail()
			r.follow(2 * time.Second)
		}
	})
}

func TestF28IdleSourceIsAskedSeldom(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		r.follow(10 * time.Second)
		before := r.srv.RPCs()
		if n := r.follow(time.Minute); n > 75 || n < 30 {
			t.Errorf("%d calls a minute", n)
		}
		for m, n := range r.srv.RPCs() {
			if n-before[m] > 6 {
				t.Errorf("%d calls of %s in an idle minute", n-before[m], m)
			}
		}
		for i := range 10 {
			r.follow(time.Duration(7+i) * 700 * time.Millisecond)
			r.publishFrom(i, 1)
			began := time.Now()
			r.read(1, 10*time.Second)
			if d := time.Since(began); d > 1500*time.Millisecond {
				t.Errorf("the first message after idling was seen after %v", d)
			}
		}
	})
}

// A runner that comes back once a minute is followed: bundles gather for most of
// it. A slow bundle, a slow commit or one stall is no interval.
func TestMeasuredIntervalIsTheRunnersOwn(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		r.publish(1)
		r.call().commit()
		tick := time.Now()
		next := func() *readBundle {
			tick = tick.Add(time.Minute)
			time.Sleep(time.Until(tick))
			b := r.call().ends(true)
			time.Sleep(2 * time.Second)
			b.finalize()
			r.publish(1)
			return b
		}
		next()
		for range 5 {
			if b := next(); b.took < 40*time.Second || b.took > 58*time.Second {
				t.Errorf("a bundle of %v at a tick of a minute", b.took)
			}
		}
		r.follow(10 * time.Minute) // and now whenever it is asked
		r.publish(1)
		if b := r.call().commit(); b.took > 50*time.Millisecond {
			t.Errorf("a bundle of %v once there are no ticks any more", b.took)
		}
	})
}

func TestSlowBundlesAreNoInterval(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		for range 4 {
			r.publish(10)
			b := r.call().ends(true)
			time.Sleep(50 * time.Second) // the sink is slow
			b.finalize()
			if b.took > time.Second {
				t.Errorf("a bundle gathered for %v though nobody keeps an interval", b.took)
			}
			b.pause()
		}
	})
}
