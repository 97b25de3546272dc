package pubsubio

import (
	"flag"
	"testing"
	"time"
)

var commitLate = flag.Int("commit-late", 2000, "messages of the test of late commits; make check-commit-late wants 20,000")

// Every commit comes 35 s late, the leases last 10 s: they are renewed until
// then, none is lost and nothing is delivered twice.
func TestLateCommitsLoseNoLease(t *testing.T) {
	n := *commitLate
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(n)
		r.source(AckDeadline(10*time.Second), MaxOutstandingMessages(n))
		var bundles []*readBundle
		got := 0
		for tries := 0; got < n && tries < n; tries++ {
			b := r.call().ends(true)
			bundles, got = append(bundles, b), got+len(b.got)
		}
		time.Sleep(35 * time.Second)
		for _, b := range bundles {
			b.finalize()
		}
		time.Sleep(time.Second)
		s := r.stats()
		if got != n || s.Delivered != int64(n) || s.Acked != int64(n) || s.Expired != 0 || s.Redelivered != 0 || s.MinRenewals < 3 {
			t.Errorf("%d emitted, want %d: %+v", got, n, s)
		}
		t.Logf("%d messages: duplicates %d, expired %d, renewals %d to %d", n, s.Redelivered, s.Expired, s.MinRenewals, s.MaxRenewals)
	})
}
