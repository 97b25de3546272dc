package pubsubfake_test

import (
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestStreamStopsAtItsMessageLimitUntilAcked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(25)...)
		st := f.stream(&pubsubpb.StreamingPullRequest{MaxOutstandingMessages: 10})
		got := f.recv(st, 10)
		synctest.Wait()
		if s := f.srv.Stats(subA); s.Outstanding != 10 || s.Delivered != 10 {
			t.Fatalf("%+v", s)
		}
		must(t, st.Send(&pubsubpb.StreamingPullRequest{AckIds: ids(got[:3])}))
		f.recv(st, 3)
		must(t, f.ack(subA, ids(got[3:5])...)) // by unary call: the credit comes back too
		f.recv(st, 2)
		synctest.Wait()
		s := f.srv.Stats(subA)
		if s.Outstanding != 10 || s.PeakOutstanding != 10 || s.PeakStreamOutstanding != 10 || s.Delivered != 15 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestStreamStopsAtItsByteLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		must(t, f.srv.Load(topicA, 10, 1000))
		st := f.stream(&pubsubpb.StreamingPullRequest{MaxOutstandingBytes: 2500})
		got := f.recv(st, 3) // the third passes the limit, as documented
		synctest.Wait()
		if s := f.srv.Stats(subA); s.Delivered != 3 {
			t.Fatalf("%+v", s)
		}
		must(t, f.ack(subA, ids(got)...))
		f.recv(st, 3)
	})
}

func TestFlowControlCanBeIgnoredAsTheEmulatorDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithoutFlowControl())
		f.publish(numbered(25)...)
		f.recv(f.stream(&pubsubpb.StreamingPullRequest{MaxOutstandingMessages: 10}), 25)
	})
}

func TestResponsesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		must(t, f.srv.Load(topicA, 2500, 10))
		must(t, f.srv.AddTopic(topicB))
		must(t, f.srv.AddSubscription(subB, topicB))
		must(t, f.srv.Load(topicB, 10, 1<<20))
		most := func(name string, total int) int {
			st := f.stream(&pubsubpb.StreamingPullRequest{Subscription: name})
			seen, largest := 0, 0
			for seen < total {
				resp, err := st.Recv()
				must(t, err)
				n := len(resp.ReceivedMessages)
				seen, largest = seen+n, max(largest, n)
			}
			return largest
		}
		if n := most(subA, 2500); n != 1000 {
			t.Errorf("%d small messages in a response", n)
		}
		if n := most(subB, 10); n != 4 {
			t.Errorf("%d messages of 1 MiB in a response", n)
		}
	})
}

func TestPingsAreAnsweredFromProtocolVersionOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true })
		st := f.stream(&pubsubpb.StreamingPullRequest{ProtocolVersion: 1})
		hello, err := st.Recv()
		must(t, err)
		if p := hello.GetSubscriptionProperties(); !p.GetMessageOrderingEnabled() || p.GetExactlyOnceDeliveryEnabled() {
			t.Fatalf("properties %v", p)
		}
		must(t, st.Send(&pubsubpb.StreamingPullRequest{}))
		pong, err := st.Recv()
		must(t, err)
		if len(pong.GetReceivedMessages()) != 0 {
			t.Fatalf("%v", pong)
		}
		f.srv.MuteStreams(subA, true)
		must(t, st.Send(&pubsubpb.StreamingPullRequest{}))
		f.publish(text("x"))
		heard := make(chan error, 1)
		go func() {
			_, err := st.Recv()
			heard <- err
		}()
		time.Sleep(time.Hour)
		select {
		case <-heard:
			t.Fatal("a muted stream answered")
		default:
		}
		f.srv.MuteStreams(subA, false)
		must(t, <-heard)
	})
}

func TestStreamDeadlineCanChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		st := f.stream(&pubsubpb.StreamingPullRequest{StreamAckDeadlineSeconds: 10})
		must(t, st.Send(&pubsubpb.StreamingPullRequest{StreamAckDeadlineSeconds: 60}))
		synctest.Wait()
		f.publish(text("x"))
		f.recv(st, 1)
		time.Sleep(59 * time.Second)
		if s := f.srv.Stats(subA); s.Outstanding != 1 {
			t.Fatalf("%+v", s)
		}
		time.Sleep(time.Second)
		f.recv(st, 1)
	})
}

func TestModAcksOnTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(numbered(2)...)
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		got := f.recv(st, 2)
		must(t, st.Send(&pubsubpb.StreamingPullRequest{ModifyDeadlineAckIds: ids(got), ModifyDeadlineSeconds: []int32{0, 30}}))
		again := f.recv(st, 1)
		if string(again[0].Message.Data) != string(got[0].Message.Data) {
			t.Fatalf("%v", again)
		}
		must(t, st.Send(&pubsubpb.StreamingPullRequest{AckIds: ids(again)}))
		time.Sleep(29 * time.Second)
		if s := f.srv.Stats(subA); s.Expired != 0 || s.Nacked != 1 || s.ModAcked != 1 || s.Acked != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestBrokenAgreementsEndTheStream(t *testing.T) {
	for name, req := range map[string]*pubsubpb.StreamingPullRequest{
		"subscription again":      {Subscription: subA},
		"limits again":            {MaxOutstandingMessages: 5},
		"lists of unequal length": {ModifyDeadlineAckIds: []string{"1-0-1"}},
		"deadline too long":       {ModifyDeadlineAckIds: []string{"1-0-1"}, ModifyDeadlineSeconds: []int32{601}},
		"stream deadline":         {StreamAckDeadlineSeconds: 9},
		"malformed id":            {AckIds: []string{"?"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, nil)
				st := f.stream(&pubsubpb.StreamingPullRequest{})
				_, err := st.Recv()
				must(t, err)
				must(t, st.Send(req))
				_, err = st.Recv()
				f.wantCode(err, codes.InvalidArgument)
			})
		})
	}
}

func TestStreamsCanBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil, pubsubfake.WithMaxStreamAge(time.Minute))
		end := func(st pubsubpb.Subscriber_StreamingPullClient) error {
			for {
				if _, err := st.Recv(); err != nil {
					return err
				}
			}
		}
		st := f.stream(&pubsubpb.StreamingPullRequest{})
		begin := time.Now()
		f.wantCode(end(st), codes.Unavailable)
		if age := time.Since(begin); age != time.Minute {
			t.Fatalf("ended after %v", age)
		}
		st = f.stream(&pubsubpb.StreamingPullRequest{})
		synctest.Wait()
		if n := f.srv.CloseStreams(subA, codes.Aborted, "closed by test"); n != 1 {
			t.Fatalf("%d streams", n)
		}
		f.wantCode(end(st), codes.Aborted)
		st = f.stream(&pubsubpb.StreamingPullRequest{})
		synctest.Wait()
		must(t, f.sub.DeleteSubscription(f.ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: subA}))
		f.wantCode(end(st), codes.NotFound)
		f.wantCode(end(f.stream(&pubsubpb.StreamingPullRequest{})), codes.NotFound)
	})
}

func TestLeasesOutliveTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		f.publish(text("x"))
		got := f.recv(f.stream(&pubsubpb.StreamingPullRequest{}), 1)
		f.srv.CloseStreams(subA, codes.Unavailable, "")
		synctest.Wait()
		if s := f.srv.Stats(subA); s.StreamsOpen != 0 || s.StreamsOpened != 1 || s.Outstanding != 1 {
			t.Fatalf("%+v", s)
		}
		must(t, f.ack(subA, ids(got)...))
		if s := f.srv.Stats(subA); s.Acked != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestConnectionsAreCountedAndDropped(t *testing.T) {
	f := setUp(t, nil)
	f.publish(text("x"))
	if c := f.srv.Connections(); c.Open != 1 || c.Peak != 1 || c.Total != 1 {
		t.Fatalf("%+v", c)
	}
	st := f.stream(&pubsubpb.StreamingPullRequest{})
	f.recv(st, 1)
	f.srv.DropConnections()
	_, err := st.Recv()
	f.wantCode(err, codes.Unavailable)
	f.publish(text("y")) // the client connects again by itself
	if c := f.srv.Connections(); c.Total != 2 || c.Peak > 2 {
		t.Fatalf("%+v", c)
	}
	if n := f.srv.RPCs()["Publish"]; n != 2 {
		t.Fatalf("%d publish calls", n)
	}
}
