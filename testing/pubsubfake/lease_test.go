package pubsubfake_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The high-level client leaves this one behind when Receive has returned.
		goleak.IgnoreTopFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		// Started by that package's init.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func TestPulledMessageComesBackWhenItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		first := f.pull(subA, 10)
		time.Sleep(nearly)
		if got := f.pull(subA, 10); len(got) != 0 {
			t.Fatalf("redelivered before the deadline: %v", got)
		}
		time.Sleep(time.Millisecond)
		second := f.pull(subA, 10)
		if len(second) != 1 || second[0].AckId == first[0].AckId {
			t.Fatalf("want one redelivery with an id of its own, got %v after %v", second, first)
		}
		if err := f.ack(subA, first[0].AckId); err != nil {
			t.Fatal(err)
		}
		st := f.srv.Stats(subA)
		if st.Expired != 1 || st.Redelivered != 1 || st.LateAcks != 1 || st.LateAfterExpiry != 1 || st.Unacked != 1 || st.Acked != 0 {
			t.Fatalf("%+v", st)
		}
		if err := f.ack(subA, second[0].AckId); err != nil {
			t.Fatal(err)
		}
		if st := f.srv.Stats(subA); st.Acked != 1 || st.Unacked != 0 || st.Outstanding != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestRenewedLeaseLastsAndCountsItsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(3)...)
		got := f.pull(subA, 10)
		for range 4 {
			time.Sleep(9 * time.Second)
			if err := f.modAck(subA, 10, ids(got)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.modAck(subA, 30, got[0].AckId); err != nil {
			t.Fatal(err)
		}
		time.Sleep(nearly)
		if err := f.ack(subA, ids(got)...); err != nil {
			t.Fatal(err)
		}
		st := f.srv.Stats(subA)
		if st.Acked != 3 || st.Expired != 0 || st.ModAcked != 13 || st.MinRenewals != 4 || st.MaxRenewals != 5 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestNackedMessageComesBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		m := f.recv(st, 1)
		begin := time.Now()
		if err := f.modAck(subA, 0, m[0].AckId); err != nil {
			t.Fatal(err)
		}
		m = f.recv(st, 1)
		if time.Since(begin) != 0 {
			t.Fatalf("took %v", time.Since(begin))
		}
		if err := st.Send(&pubsubpb.StreamingPullRequest{AckIds: ids(m)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := f.srv.Stats(subA); st.Nacked != 1 || st.Acked != 1 || st.Delivered != 2 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestLateAcksAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(3)...)
		got := f.pull(subA, 3)
		must(t, f.ack(subA, got[0].AckId))
		must(t, f.ack(subA, got[0].AckId))
		must(t, f.modAck(subA, 0, got[1].AckId))
		must(t, f.ack(subA, got[1].AckId))
		time.Sleep(11 * time.Second)
		must(t, f.ack(subA, got[2].AckId))
		must(t, f.ack(subA, "zz-0-1"))
		f.wantCode(f.ack(subA, "not an id"), codes.InvalidArgument)
		st := f.srv.Stats(subA)
		if st.LateAfterAck != 1 || st.LateAfterNack != 1 || st.LateAfterExpiry != 1 || st.LateUnknown != 1 || st.MalformedAckIDs != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestDeadlinesOutsideTheLimitsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		id := f.pull(subA, 1)[0].AckId
		f.wantCode(f.modAck(subA, 601, id), codes.InvalidArgument)
		f.wantCode(f.modAck(subA, -1, id), codes.InvalidArgument)
		must(t, f.modAck(subA, 600, id))
		for _, d := range []int32{9, 601} {
			_, err := f.stream(&pubsubpb.StreamingPullRequest{StreamAckDeadlineSeconds: d}).Recv()
			f.wantCode(err, codes.InvalidArgument)
		}
	})
}

func TestPullWaitsForTheFirstMessageAndNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithPullWait(3*time.Second))
		begin := time.Now()
		resp, err := f.sub.Pull(f.ctx, &pubsubpb.PullRequest{Subscription: subA, MaxMessages: 1})
		if err != nil || len(resp.ReceivedMessages) != 0 || time.Since(begin) != 3*time.Second {
			t.Fatalf("%v %v after %v", resp, err, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { f.publish(text("x")) })
		resp, err = f.sub.Pull(f.ctx, &pubsubpb.PullRequest{Subscription: subA, MaxMessages: 1})
		if err != nil || len(resp.ReceivedMessages) != 1 || time.Since(begin) != 4*time.Second {
			t.Fatalf("%v %v after %v", resp, err, time.Since(begin))
		}
	})
}

func TestRetryPolicyDelaysRedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, withBackoff(2*time.Second, 5*time.Second))
		f.publish(text("x"))
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		m := f.recv(st, 1)
		for _, want := range []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			begin := time.Now()
			must(t, f.modAck(subA, 0, ids(m)...))
			m = f.recv(st, 1)
			if got := time.Since(begin); got != want {
				t.Fatalf("came back after %v, want %v", got, want)
			}
		}
	})
}

func withBackoff(minimum, maximum time.Duration) func(*pubsubpb.Subscription) {
	return func(s *pubsubpb.Subscription) {
		s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(minimum), MaximumBackoff: durationpb.New(maximum)}
	}
}

func TestManualClockOverTCP(t *testing.T) {
	clock := pubsubfake.NewManualClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	f := setUp(t, nil, pubsubfake.WithClock(clock))
	if _, err := f.srv.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if f.srv.Addr() == "" {
		t.Fatal("no address")
	}
	f.publish(text("x"))
	first := f.pull(subA, 1)
	if got := first[0].Message.PublishTime.AsTime(); !got.Equal(clock.Now()) {
		t.Fatalf("published at %v", got)
	}
	clock.Advance(nearly)
	if got := f.pull(subA, 1); len(got) != 0 {
		t.Fatal(got)
	}
	clock.Advance(time.Millisecond)
	if got := f.pull(subA, 1); len(got) != 1 {
		t.Fatal(got)
	}
}

func TestEventsAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []pubsubfake.EventKind
		f := setUp(t, nil, pubsubfake.WithEventHook(func(e pubsubfake.Event) { kinds = append(kinds, e.Kind) }))
		f.publish(text("x"))
		m := f.pull(subA, 1)
		must(t, f.modAck(subA, 20, ids(m)...))
		must(t, f.modAck(subA, 0, ids(m)...))
		f.pull(subA, 1)
		time.Sleep(10 * time.Second)
		m = f.pull(subA, 1)
		must(t, f.ack(subA, ids(m)...))
		want := []pubsubfake.EventKind{
			pubsubfake.EventPublished, pubsubfake.EventDelivered, pubsubfake.EventRenewed, pubsubfake.EventNacked,
			pubsubfake.EventDelivered, pubsubfake.EventExpired, pubsubfake.EventDelivered, pubsubfake.EventAcked,
		}
		if !slices.Equal(kinds, want) {
			t.Fatalf("%v", kinds)
		}
	})
}

func TestStopAndStartKeepTheData(t *testing.T) {
	f := setUp(t, nil)
	addr, err := f.srv.Start("127.0.0.1:0")
	must(t, err)
	f.publish(text("x"))
	f.srv.Stop()
	if _, err := f.srv.Start(addr); err != nil {
		t.Fatal(err)
	}
	if n := len(f.srv.Published(topicA)); n != 1 {
		t.Fatalf("%d messages", n)
	}
	f.srv.Close()
	if _, err := f.srv.Dial(context.Background()); err == nil {
		t.Fatal("dialed a closed server")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
