package pubsubio

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// A stream that stays connected and says nothing is replaced, and so is its
// connection, which may be dead without a word.
func TestF22SilentStreamIsReplaced(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(100)
		r.source(StallTimeout(20 * time.Second))
		got := r.read(100, 5*time.Second)
		for range 20 { // an idle stream whose pings are answered stays
			r.call().commit()
			time.Sleep(5 * time.Second)
		}
		if n := r.srv.Stats(testSub).StreamsOpened; n != 1 {
			t.Errorf("%d streams were opened while the server answered", n)
		}
		r.srv.MuteStreams(testSub, true)
		silent := time.Now()
		r.publishFrom(100, 1000)
		for r.srv.Stats(testSub).StreamsOpened < 2 {
			r.call().commit()
			time.Sleep(250 * time.Millisecond)
			if time.Since(silent) > time.Minute {
				t.Fatal("the silent stream was not replaced within a minute")
			}
		}
		r.srv.MuteStreams(testSub, false)
		got = append(got, r.read(1000, 30*time.Second)...)
		if d := time.Since(silent); d > 30*time.Second {
			t.Errorf("messages flow again after %v", d)
		}
		r.checkAll(got, 1100)
		if c := r.srv.Connections(); c.Total < 2 || c.Open > 1 {
			t.Errorf("%+v, want another connection in place of the silent one", c)
		}
	})
}

// The official emulator does not answer keep-alives: silence alone is no fault.
func TestSilenceOfAServerWithoutKeepAlivesIsBelieved(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.srv.MuteStreams(testSub, true)
		r.source(StallTimeout(20 * time.Second))
		for range 60 {
			r.call().commit()
			time.Sleep(5 * time.Second)
		}
		if s := r.stats(); s.StreamsOpened != 1 {
			t.Errorf("%d streams were opened", s.StreamsOpened)
		}
	})
}

func TestF22StreamsThatEndAreOpenedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.OK, codes.Unavailable, codes.Internal, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted} {
		t.Run(code.String(), func(t *testing.T) {
			readBubble(t, nil, func(t *testing.T, r *readRig) {
				r.publish(50)
				r.source()
				got := r.read(50, 5*time.Second)
				r.srv.CloseStreams(testSub, code, "closed by the test")
				r.publishFrom(50, 50)
				r.checkAll(append(got, r.read(50, 2*time.Second)...), 100)
				if n := r.reader().Stats().Reconnects.Load(); n != 1 {
					t.Errorf("reconnects counts %d", n)
				}
			})
		})
	}
}

func TestF22DroppedConnectionsAreMadeAgain(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source(BatchCount(20), MaxOutstandingMessages(100))
		var got []Message
		for i := range 5 {
			r.publishFrom(100*i, 100)
			got = append(got, r.read(30, 5*time.Second)...)
			r.srv.DropConnections()
			got = append(got, r.read(100*(i+1)-len(got), 20*time.Second)...)
		}
		r.checkAll(got, 500)
		time.Sleep(time.Second)
		if s := r.stats(); s.Unacked != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A down service is asked now and then, not in a loop.
func TestReopeningWaitsLongerEachTime(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unavailable, Text: "down"})
		for range 240 {
			b := r.call().commit()
			if b.err != nil {
				t.Fatal(b.err)
			}
			time.Sleep(time.Second)
		}
		if n := r.srv.RPCs()["StreamingPull"]; n < 8 || n > 25 {
			t.Errorf("%d attempts in four minutes", n)
		}
		if n := len(r.logged("opening the stream again")); n < 1 || n > 6 {
			t.Errorf("%d lines logged in four minutes", n)
		}
	})
}

func TestSubscriptionDeletedWhileRunning(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(5)
		r.source()
		r.read(5, 5*time.Second)
		if _, err := r.srv.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: testSub}); err != nil {
			t.Fatal(err)
		}
		var err error
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); {
			b := r.call()
			err = b.err
			b.commit().pause()
		}
		if err == nil || !strings.Contains(err.Error(), testSub) || !strings.Contains(err.Error(), "NotFound") {
			t.Errorf("the read goes on, or its error is unclear: %v", err)
		}
	})
}

func TestReadingWithoutTheRightNamesIt(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.srv.Inject(pubsubfake.Fault{Method: "GetSubscription", Code: codes.PermissionDenied, Text: "User not authorized"})
		r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.PermissionDenied, Text: "User not authorized"})
		r.source() // to look the subscription up is not needed
		var err error
		for range 20 {
			if err = r.call().commit().err; err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err == nil || !strings.Contains(err.Error(), "pubsub.subscriptions.consume") || !strings.Contains(err.Error(), testSub) {
			t.Errorf("error %v", err)
		}
	})
}

// Credentials that are refused may be about to be rotated.
func TestRefusedCredentialsAreTriedAgainForAWhile(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source()
		f := r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unauthenticated})
		for range 30 {
			if b := r.call().commit(); b.err != nil {
				t.Fatalf("within half a minute: %v", b.err)
			}
			time.Sleep(time.Second)
		}
		f.Remove()
		r.publish(5)
		r.checkAll(r.read(5, 35*time.Second), 5)

		r.srv.CloseStreams(testSub, codes.Unavailable, "")
		r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unauthenticated, Text: "expired key"})
		var err error
		for end := time.Now().Add(3 * time.Minute); err == nil && time.Now().Before(end); time.Sleep(time.Second) {
			err = r.call().commit().err
		}
		if err == nil || !strings.Contains(err.Error(), "expired key") {
			t.Errorf("refused for good: %v", err)
		}
	})
}

// The official emulator sends everything at once.
func TestServerWithoutFlowControlIsReadWithPull(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(5000)
		r.source(MaxOutstandingMessages(500), AckDeadline(20*time.Second))
		got := r.read(5000, time.Minute)
		r.checkAll(got, 5000)
		s := r.stats()
		if s.Pulls == 0 || s.Acked != 5000 || s.Redelivered != 0 {
			t.Errorf("%+v", s)
		}
		if n := len(r.logged("reading with Pull instead")); n != 1 {
			t.Errorf("said %d times", n)
		}
		// What the stream sent before it was given up is beyond the bound; Pull
		// keeps it.
		r.publishFrom(5000, 5000)
		peak := int64(0)
		for range 20 {
			b := r.call().ends(true)
			got = append(got, b.got...)
			peak = max(peak, r.stats().Outstanding)
			time.Sleep(time.Second)
			defer b.finalize()
		}
		if peak > 500 {
			t.Errorf("%d outstanding with a bound of 500", peak)
		}
		if n := r.stats().Expired; n != 0 {
			t.Errorf("%d leases expired", n)
		}
	}, pubsubfake.WithoutFlowControl())
}

func TestSeveralStreamsShareTheBoundAndTheConnections(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(3000)
		r.source(Streams(4), ClientsPerWorker(2), MaxOutstandingMessages(400))
		b := r.call().ends(true)
		if s := r.stats(); s.StreamsOpen != 4 || s.PeakOutstanding > 400 || s.PeakStreamOutstanding > 100 {
			t.Errorf("%+v", s)
		}
		b.finalize()
		r.checkAll(append(b.got, r.read(3000-len(b.got), time.Minute)...), 3000)
		if c := r.srv.Connections(); c.Peak != 2 {
			t.Errorf("%+v, want 2 connections", c)
		}
	})
}

// One of two streams failed for a while: it used to be counted as closed more
// often than opened, so that the reader was never called idle again.
func TestFlappingStreamLeavesTheReaderConnected(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unavailable, Skip: 1, Times: 5})
		r.publish(10)
		r.source(Streams(2), TriggerAvailableNow)
		r.checkAll(r.read(10, 20*time.Second), 10)
		for end := time.Now().Add(2 * time.Minute); ; {
			b := r.call().commit()
			if b.err != nil {
				t.Fatal(b.err)
			}
			if b.done {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the read does not end: its reader does not count as connected")
			}
			b.pause()
		}
	})
}

func TestStopInterruptsAGather(t *testing.T) {
	for name, stop := range map[string]func(*sdf.LockRTracker){
		"checkpoint": func(rt *sdf.LockRTracker) { _, _, _ = rt.TrySplit(0) },
		"drain":      func(*sdf.LockRTracker) { queue.DrainAll(0)() },
	} {
		t.Run(name, func(t *testing.T) {
			readBubble(t, nil, func(t *testing.T, r *readRig) {
				r.publish(10)
				r.source(ReceiveTime(time.Minute))
				r.during = func(rt *sdf.LockRTracker) {
					time.Sleep(3 * time.Second)
					stop(rt)
				}
				b := r.call().commit()
				if b.took > 3*time.Second+10*time.Millisecond || len(b.got) != 10 {
					t.Errorf("%d messages in %v, stopped after 3s", len(b.got), b.took)
				}
				synctest.Wait()
				if s := r.stats(); s.Acked != 10 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestOrderingKeysArriveInOrder(t *testing.T) {
	readBubble(t, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true }, func(t *testing.T, r *readRig) {
		for i := range 300 {
			r.store(&pubsubpb.PubsubMessage{Data: []byte{byte(i >> 8), byte(i)}, OrderingKey: string(rune('a' + i%3))})
		}
		r.source(SchemaSlim, BatchCount(7), MaxOutstandingMessages(60))
		last := map[string]int{}
		n := 0
		for i := 0; n < 300 && i < 500; i++ {
			if i%5 == 4 {
				r.fail() // what comes after it must wait for it
				time.Sleep(10 * time.Millisecond)
				continue
			}
			b := r.call().commit()
			for _, m := range b.got {
				at := int(m.Data[0])<<8 + int(m.Data[1])
				if prev, ok := last[m.OrderingKey]; ok && at <= prev {
					t.Fatalf("key %s: %d after %d", m.OrderingKey, at, prev)
				}
				last[m.OrderingKey] = at
				n++
			}
			b.pause()
		}
		if n != 300 {
			t.Errorf("%d of 300 read", n)
		}
	})
}
