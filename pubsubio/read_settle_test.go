package pubsubio

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestReadAcknowledgesWhatIsCommitted(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(100)
		r.source()
		b := r.call().ends(true)
		if s := r.stats(); len(b.got) == 0 || s.Acked != 0 {
			t.Errorf("%d emitted, %d acknowledged before the commit", len(b.got), s.Acked)
		}
		b.finalize()
		r.checkAll(append(b.got, r.read(100-len(b.got), 10*time.Second)...), 100)
		if s := r.stats(); s.Acked != 100 || s.Delivered != 100 || s.Unacked != 0 || s.LateAcks != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The runner never says that every third bundle is durable.
func TestF01FinalizationThatNeverComes(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(200)
		r.source(CommitTimeout(5*time.Second), BatchCount(10), MaxOutstandingMessages(1000))
		dropped := map[string]time.Time{} // bodies, and when their bundle ended
		seen := map[string]int{}
		bundles, again := 0, 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			b := r.call().ends(true)
			for _, m := range b.got {
				id := string(m.Data)
				if seen[id]++; seen[id] == 1 {
					continue
				}
				again++
				if at, ok := dropped[id]; !ok || time.Since(at) > 15*time.Second {
					t.Errorf("%s came again %v after its bundle, which was dropped: %v", id, time.Since(at), ok)
				}
			}
			if len(b.got) > 0 {
				bundles++
			}
			if len(b.got) > 0 && bundles <= 20 && bundles%3 == 0 {
				for _, m := range b.got {
					dropped[string(m.Data)] = time.Now()
				}
			} else {
				b.finalize()
			}
			b.pause()
		}
		if len(seen) != 200 || again != len(dropped) || again == 0 {
			t.Errorf("%d of 200 read, %d came again, want the %d of dropped bundles", len(seen), again, len(dropped))
		}
		if s := r.stats(); s.Outstanding != 0 || s.Unacked != 0 || s.Expired != 0 {
			t.Errorf("after the run: %+v", s)
		}
		if n := r.reader().Stats().Expired.Load(); n != int64(len(dropped)) || r.reader().HeldBytes() != 0 {
			t.Errorf("expired counts %d, want %d; %d bytes held", n, len(dropped), r.reader().HeldBytes())
		}
	})
}

// Every fourth bundle fails after ProcessElement, and in the middle the slot
// moves to another instance.
func TestF02NothingIsAcknowledgedBeforeItsOutputIsCommitted(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(1000)
		var mu sync.Mutex
		durable := map[string]bool{}
		r.srv.OnEvent(func(e pubsubfake.Event) {
			if e.Kind != pubsubfake.EventAcked {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !durable[string(e.Message.GetData())] {
				t.Errorf("%s was acknowledged and its output was not committed", e.Message.GetData())
			}
		})
		r.source(BatchCount(20), MaxOutstandingMessages(200))
		var got []Message
		for n := 1; len(counts(got)) < 1000 && n < 1000; n++ {
			if n == 25 {
				r.worker = "worker-2"
			}
			if n%4 == 0 {
				r.fail()
				continue
			}
			b := r.call()
			if b.err != nil {
				t.Fatal(b.err)
			}
			mu.Lock()
			for _, m := range b.got {
				durable[string(m.Data)] = true
			}
			mu.Unlock()
			got = append(got, b.got...)
			b.commit().pause()
			synctest.Wait()
		}
		r.checkAll(got, 1000)
		if s := r.stats(); s.Acked != 1000 || s.Unacked != 0 || s.Nacked == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFailedBundleComesAgainWhole(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(50)
		r.source()
		b := r.fail()
		if s := r.stats(); len(b.got) != 50 || s.Acked != 0 || s.Nacked != 50 {
			t.Errorf("%d emitted by the failing bundle, %+v", len(b.got), s)
		}
		r.checkAll(r.read(50, 5*time.Second), 50)
	})
}

func TestF19LeasesLastUntilALateCommit(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(200)
		r.source(AckDeadline(10 * time.Second))
		b := r.call().ends(true)
		time.Sleep(35 * time.Second)
		b.finalize()
		time.Sleep(time.Second)
		r.checkAll(append(b.got, r.read(200-len(b.got), 5*time.Second)...), 200)
		if s := r.stats(); s.Delivered != 200 || s.Acked != 200 || s.Expired != 0 || s.MinRenewals < 3 {
			t.Errorf("%+v", s)
		}
	})
}

// The renewals have no effect, the commit comes late, and with it the acks.
func TestF19LateAcknowledgementsAreCountedNotBelieved(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(200)
		r.source(AckDeadline(10*time.Second), MaxOutstandingMessages(400))
		r.srv.Inject(pubsubfake.Fault{Method: "ModifyAckDeadline", Code: codes.Unavailable, When: func(m proto.Message) bool {
			return m.(*pubsubpb.ModifyAckDeadlineRequest).GetAckDeadlineSeconds() > 0
		}})
		b := r.call().ends(true)
		if len(b.got) != 200 {
			t.Fatalf("%d messages in the first bundle", len(b.got))
		}
		r.srv.CloseStreams(testSub, codes.Unavailable, "and none opens")
		dead := r.srv.Inject(pubsubfake.Fault{Method: "StreamingPull", Code: codes.Unavailable})
		time.Sleep(20 * time.Second)
		b.finalize()
		synctest.Wait()
		if n := r.reader().Stats().AckExpired.Load(); n != 200 {
			t.Errorf("ack_expired counts %d, want 200", n)
		}
		if s := r.stats(); s.Acked != 0 || s.Expired != 200 || s.LateAfterExpiry != 200 {
			t.Errorf("%+v", s)
		}
		r.srv.ClearFaults()
		dead.Remove()
		again := r.read(200, time.Minute)
		r.checkAll(again, 200)
		ids := map[string]string{}
		for _, m := range b.got {
			ids[string(m.Data)] = m.MessageID
		}
		for _, m := range again {
			if ids[string(m.Data)] != m.MessageID {
				t.Fatalf("%s came again with id %s, first %s", m.Data, m.MessageID, ids[string(m.Data)])
			}
		}
	})
}

// The broker delivers what is held once more. It is emitted once, and the newest
// delivery is the one that is acknowledged.
func TestRedeliveryOfAHeldMessageIsEmittedOnce(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(10)
		r.source()
		b := r.call().ends(true)
		if n := r.srv.Redeliver(testSub, func(*pubsubpb.PubsubMessage) bool { return true }); n != 10 {
			t.Fatalf("%d redelivered", n)
		}
		synctest.Wait()
		next := r.call()
		if len(b.got) != 10 || len(next.got) != 0 {
			t.Errorf("%d and %d messages emitted, want 10 and none", len(b.got), len(next.got))
		}
		next.commit()
		b.finalize()
		synctest.Wait()
		time.Sleep(time.Second)
		st := r.reader().Stats()
		if s := r.stats(); s.Unacked != 0 || st.Redelivered.Load() != 10 || st.Emitted.Load() != 10 {
			t.Errorf("unacked %d, redelivered counts %d, emitted %d", s.Unacked, st.Redelivered.Load(), st.Emitted.Load())
		}
	})
}

func exactlyOnce(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true }

func TestExactlyOnceRetriesTransientIDs(t *testing.T) {
	readBubble(t, exactlyOnce, func(t *testing.T, r *readRig) {
		r.publish(30)
		f := r.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", AckReason: "TRANSIENT_FAILURE_UNKNOWN", Times: 3})
		r.source()
		r.checkAll(r.read(30, 5*time.Second), 30)
		time.Sleep(10 * time.Second)
		st := r.reader().Stats()
		if s := r.stats(); f.Fired() != 3 || s.Acked != 30 || s.LateAcks != 0 || st.Acked.Load() != 30 || st.SettleFailed.Load() != 0 {
			t.Errorf("%d faults, server %+v; acked counts %d, settle_failed %d", f.Fired(), s, st.Acked.Load(), st.SettleFailed.Load())
		}
		if last, total := r.reader().inlet.retry.read(); total < 3 {
			t.Errorf("retries counted: %d, %d", last, total)
		}
	})
}

func TestExactlyOnceCountsPermanentFailures(t *testing.T) {
	readBubble(t, exactlyOnce, func(t *testing.T, r *readRig) {
		r.publish(30)
		acks := capture[*pubsubpb.AcknowledgeRequest](r, "Acknowledge")
		r.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", AckReason: "PERMANENT_FAILURE_INVALID_ACK_ID", Times: 1})
		r.source()
		b := r.call().commit()
		if len(b.got) != 30 {
			t.Fatalf("%d messages", len(b.got))
		}
		synctest.Wait()
		st := r.reader().Stats()
		if n := len(acks()); n != 1 || st.SettleFailed.Load() != 30 || st.Acked.Load() != 0 {
			t.Errorf("%d ack requests, settle_failed counts %d, acked %d; want 1, 30, 0", n, st.SettleFailed.Load(), st.Acked.Load())
		}
	})
}

// detailed makes an error as the service does.
func detailed(t *testing.T, code codes.Code, metadata map[string]string) error {
	t.Helper()
	st, err := status.New(code, "because").WithDetails(&errdetails.ErrorInfo{Reason: "R", Domain: "pubsub.googleapis.com", Metadata: metadata})
	if err != nil {
		t.Fatal(err)
	}
	api, ok := apierror.FromError(st.Err())
	if !ok {
		t.Fatal("no API error")
	}
	return api
}

// Errors about permissions and quotas carry metadata too: they were taken for
// an answer that mentions no id, and so for success.
func TestMetadataOfOtherErrorsIsNoAnswerForAnID(t *testing.T) {
	ids := []string{"a", "b", "c"}
	for name, tc := range map[string]struct {
		err            error
		refused, again []string
		answered       bool
	}{
		"success":             {nil, nil, nil, true},
		"plain error":         {status.Error(codes.Unavailable, "x"), nil, ids, false},
		"missing permission":  {detailed(t, codes.PermissionDenied, map[string]string{"permission": "p"}), nil, ids, false},
		"quota":               {detailed(t, codes.ResourceExhausted, map[string]string{"quota_limit": "9"}), nil, ids, false},
		"some ids of each":    {detailed(t, codes.FailedPrecondition, map[string]string{"a": "PERMANENT_FAILURE_INVALID_ACK_ID", "c": "TRANSIENT_FAILURE_SERVICE_UNAVAILABLE"}), []string{"a"}, []string{"c"}, true},
		"an id of a new kind": {detailed(t, codes.FailedPrecondition, map[string]string{"b": "SOMETHING_NEW"}), []string{"b"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			refused, again, answered := ackResult(tc.err, ids)
			if fmt.Sprint(refused, again, answered) != fmt.Sprint(tc.refused, tc.again, tc.answered) {
				t.Errorf("refused %v, again %v, answered %v", refused, again, answered)
			}
		})
	}
}

func TestTransientIDsAreRetriedWhateverTheCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, calls := &inlet{}, 0
		failed, err := in.each(t.Context(), []string{"a", "b"}, func(context.Context, []string) error {
			if calls++; calls > 1 {
				return nil
			}
			return detailed(t, codes.FailedPrecondition, map[string]string{
				"a": "PERMANENT_FAILURE_INVALID_ACK_ID", "b": "TRANSIENT_FAILURE_UNKNOWN",
			})
		})
		if err != nil || fmt.Sprint(failed) != "[a]" || calls != 2 {
			t.Errorf("failed %v, %v after %d calls", failed, err, calls)
		}
	})
}

func TestOneBadIDSpoilsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprint(i))
		}
		done := map[string]bool{}
		calls := 0
		failed, err := (&inlet{}).each(t.Context(), ids, func(_ context.Context, ids []string) error {
			calls++
			for _, id := range ids {
				if id == "777" {
					return status.Error(codes.InvalidArgument, "an invalid ack ID (ack_id=777)")
				}
			}
			for _, id := range ids {
				done[id] = true
			}
			return nil
		})
		if len(failed) != 1 || failed[0] != "777" || len(done) != 999 || err == nil {
			t.Errorf("failed %v, %d done, %v", failed, len(done), err)
		}
		if calls > 25 {
			t.Errorf("%d calls", calls)
		}
	})
}

// Acks kept by the subscription can be had again.
func TestSeekBringsBackWhatWasAcknowledged(t *testing.T) {
	readBubble(t, func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true }, func(t *testing.T, r *readRig) {
		r.publish(20)
		r.source()
		r.checkAll(r.read(20, 5*time.Second), 20)
		r.endJob()
		r.source() // another job, without seek
		if b := r.call().commit(); len(b.got) != 0 {
			t.Errorf("%d messages came again without a seek", len(b.got))
		}
		r.endJob()
		r.source(SeekBeginning)
		r.checkAll(r.read(20, 5*time.Second), 20)
	})
}
