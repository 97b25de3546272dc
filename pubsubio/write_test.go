package pubsubio

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestBundleBatchingPublishesEachMessageOnce(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(2345)
	r.run(ms, Topic("orders"))
	r.checkOnce(ids(ms))
	st := r.srv.TopicStats(testTopic)
	if st.Messages != 2345 || st.Requests != 3 {
		t.Errorf("%d messages in %d requests, want 2345 in 3", st.Messages, st.Requests)
	}
	for i, m := range ms {
		if et := r.times[m.MessageID]; int(et) != 1000+i {
			t.Fatalf("outcome of %s has event time %d, want its element's", m.MessageID, et)
		}
	}
	if p := r.published[0]; p.Topic != testTopic || p.MessageID == "" || p.Latency != 0 {
		t.Errorf("result %+v", p)
	}
}

func TestExactBatchingFillsBatchesOverBundles(t *testing.T) {
	r := newWriteRig(t)
	r.dribble(120, 10, time.Millisecond, Topic("orders"), BatchExact, MaxWorkers(1), BatchDelay(time.Second))
	r.checkOnce(ids(messages(120)))
	if got := r.requestSizes(); fmt.Sprint(got) != "[50 50 20]" {
		t.Errorf("requests of %v messages, want 50, 50, 20", got)
	}
	for i := range 120 {
		if et := r.times[fmt.Sprintf("id-%06d", i)]; int(et) != 1000+i {
			t.Fatalf("outcome of message %d has event time %d, want its element's", i, et)
		}
	}
}

func TestExactBatchingPublishesFullBatchesWithTheirBundle(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(5020)
	r.run(ms, Topic("orders"), BatchExact, BatchDelay(200*time.Millisecond))
	r.checkOnce(ids(ms))
	got := r.requestSizes()
	slices.Sort(got)
	if len(got) != 101 || got[0] != 20 || got[1] != 50 || got[100] != 50 {
		t.Errorf("%d requests of %v messages, want 100 of 50 and one of 20", len(got), got)
	}
}

// A plain beam.Run must be safe: while a slow publish makes a bundle sit still,
// Prism would split it and lose what its stateful stage holds.
func TestExactBatchingLosesNothingBehindASlowService(t *testing.T) {
	r := newWriteRig(t)
	r.srv.Inject(pubsubfake.Fault{Method: "Publish", AnswerDelay: 300 * time.Millisecond})
	r.dribble(3000, 700, time.Millisecond, Topic("orders"), BatchExact, BatchDelay(100*time.Millisecond))
	r.checkOnce(ids(messages(3000)))
	if n := r.srv.TopicStats(testTopic).Messages; n != 3000 {
		t.Errorf("%d of 3000 messages stored", n)
	}
}

func TestStreamingPublishesEachMessageAlone(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(60)
	r.run(ms, Topic("orders"), BatchStreaming)
	r.checkOnce(ids(ms))
	if st := r.srv.TopicStats(testTopic); st.Requests != 60 {
		t.Errorf("%d requests for 60 messages", st.Requests)
	}
}

// The flink runner is not at hand: its route, every batch through a shard, runs
// on Prism here.
func TestBoundedWorkersSendEveryBatchThroughAShard(t *testing.T) {
	for name, mode := range map[string]Batching{"bundle": BatchBundle, "exact": BatchExact, "streaming": BatchStreaming} {
		t.Run(name, func(t *testing.T) {
			r := newWriteRig(t)
			ms := messages(230)
			for i := range ms {
				if i%2 == 0 {
					ms[i].OrderingKey = fmt.Sprint("k", i%4)
				}
			}
			opts := []WriteOption{Topic("orders"), mode, MaxWorkers(3), Runner("flink")}
			if mode == BatchExact {
				opts = append(opts, BatchDelay(100*time.Millisecond))
			}
			r.run(ms, opts...)
			r.checkOnce(ids(ms))
			r.checkOrder()
		})
	}
}

func TestRouteFollowsRunnerAndMode(t *testing.T) {
	for name, tc := range map[string]struct {
		c    writeConfig
		want route
	}{
		"prism, exact":             {writeConfig{Runner: "prism", Batching: BatchExact, MaxWorkers: 5}, route{false, 1, true}},
		"unknown runner, exact":    {writeConfig{Batching: BatchExact, MaxWorkers: 5}, route{false, 1, true}},
		"flink, exact, unbounded":  {writeConfig{Runner: "flink", Batching: BatchExact}, route{false, 20, true}},
		"flink, exact, 5 workers":  {writeConfig{Runner: "flink", Batching: BatchExact, MaxWorkers: 5}, route{true, 5, true}},
		"flink, bundle, unbounded": {writeConfig{Runner: "flink", Batching: BatchBundle}, route{false, 20, false}},
		"flink, bundle, 5 workers": {writeConfig{Runner: "flink", Batching: BatchBundle, MaxWorkers: 5}, route{true, 5, false}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.route(); got != tc.want {
				t.Errorf("route %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestWindowedInputIsPublishedWhole(t *testing.T) {
	for _, mode := range []Batching{BatchBundle, BatchExact} {
		t.Run(string(mode), func(t *testing.T) {
			r := newWriteRig(t)
			r.input = messages(130)
			opts := []WriteOption{Topic("orders"), mode}
			if mode == BatchExact {
				opts = append(opts, BatchDelay(50*time.Millisecond))
			}
			r.pipeline(func(s beam.Scope) beam.PCollection {
				col := beam.ParDo(s, &feedFn{Key: r.key}, beam.Impulse(s))
				return beam.WindowInto(s, window.NewFixedWindows(10*time.Millisecond), col)
			}, opts...)
			r.checkOnce(ids(r.input))
		})
	}
}

func TestF03BoundedInputWaitsForItsAnswers(t *testing.T) {
	for _, mode := range []Batching{BatchBundle, BatchExact} {
		for _, withheld := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, withheld=%v", mode, withheld), func(t *testing.T) {
				r := newWriteRig(t)
				f := pubsubfake.Fault{Method: "Publish", AnswerDelay: 100 * time.Millisecond}
				if withheld {
					f = pubsubfake.Fault{Method: "Publish", Hang: true}
				}
				r.srv.Inject(f)
				ms := messages(120)
				for i := range ms {
					ms[i].Data = make([]byte, 64<<10)
				}
				opts := []WriteOption{Topic("orders"), mode, BatchCount(50)}
				if withheld {
					opts = append(opts, PublishTimeout(250*time.Millisecond))
				}
				if mode == BatchExact {
					opts = append(opts, BatchDelay(50*time.Millisecond))
				}
				r.run(ms, opts...)
				r.checkOnce(ids(ms))
				if !withheld {
					if n := r.srv.TopicStats(testTopic).Messages; n != 120 || len(r.published) != 120 {
						t.Errorf("%d stored, %d published, want 120 and 120", n, len(r.published))
					}
					return
				}
				if len(r.failed) != 120 {
					t.Fatalf("%d failed, want 120", len(r.failed))
				}
				for _, m := range r.failed {
					if !m.Unknown || m.Permanent || m.Attempts < 1 || !strings.Contains(m.Reason, "250ms") || len(m.Message.Data) != 64<<10 {
						m.Message.Data = nil
						t.Fatalf("failed message %+v", m)
					}
				}
			})
		}
	}
}

func TestF04ClientsAreSharedByBundlesAndTransforms(t *testing.T) {
	r := newWriteRig(t)
	r.srv.Inject(pubsubfake.Fault{Method: "Publish", AnswerDelay: 5 * time.Millisecond})
	r.dribble(2000, 50, 0, Topic("orders"), BatchCount(5), ClientsPerWorker(4))
	r.dribble(2000, 50, 0, Topic("orders"), BatchCount(5), ClientsPerWorker(4))
	if c := r.srv.Connections(); c.Total != 4 {
		t.Errorf("%+v, want 4 connections for 80 bundles of two pipelines", c)
	}
	topicClients.CloseIdle()
	if c := r.srv.Connections(); c.Open != 0 || topicClients.Len() != 0 {
		t.Errorf("%+v after closing idle clients", c)
	}
}

func TestF20OrderingKeyResumesOrHolds(t *testing.T) {
	keyed := func() []Message {
		ms := messages(100)
		for i := range ms {
			ms[i].OrderingKey = fmt.Sprint("k", 1+i%2) // k1: 0, 2, 4 ... 98
		}
		return ms
	}
	const tenth = "id-000018" // of k1
	atTenth := func(m *pubsubpb.PubsubMessage) bool { return string(m.GetData()) == tenth }
	for _, mode := range []Batching{BatchBundle, BatchStreaming, BatchExact} {
		t.Run(string(mode)+", fails once", func(t *testing.T) {
			r := newWriteRig(t)
			fault := r.srv.Inject(pubsubfake.Fault{Method: "Publish", Match: atTenth, Code: codes.Unavailable, Times: 1})
			r.run(keyed(), Topic("orders"), mode)
			r.checkOnce(ids(keyed()))
			r.checkOrder()
			if len(r.published) != 100 || fault.Fired() != 1 {
				t.Errorf("%d published, fault struck %d times", len(r.published), fault.Fired())
			}
		})
		t.Run(string(mode)+", fails for good, resumed", func(t *testing.T) {
			r := newWriteRig(t)
			r.srv.Inject(pubsubfake.Fault{Method: "Publish", Match: atTenth, Code: codes.InvalidArgument})
			r.run(keyed(), Topic("orders"), mode, OrderingResume)
			r.checkOnce(ids(keyed()))
			r.checkOrder()
			if len(r.published) != 99 || len(r.failed) != 1 || r.failed[0].Message.MessageID != tenth || !r.failed[0].Permanent {
				t.Errorf("%d published, failed: %+v", len(r.published), r.failed)
			}
		})
		t.Run(string(mode)+", fails for good, held", func(t *testing.T) {
			r := newWriteRig(t)
			r.srv.Inject(pubsubfake.Fault{Method: "Publish", Match: atTenth, Code: codes.InvalidArgument, Text: "the cause"})
			r.run(keyed(), Topic("orders"), mode, OrderingHold)
			r.checkOnce(ids(keyed()))
			r.checkOrder()
			if len(r.published) != 59 || len(r.failed) != 41 {
				t.Fatalf("%d published, %d failed, want 59 and 41", len(r.published), len(r.failed))
			}
			for _, f := range r.failed {
				if f.Message.OrderingKey != "k1" || f.Message.MessageID < tenth || !strings.Contains(f.Reason, "the cause") {
					t.Errorf("failed %+v", f)
				}
			}
		})
	}
}

func TestF20IllegalMessageHoldsItsKeyFromItsPlaceOn(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(50)
	for i := range ms {
		ms[i].OrderingKey = "k"
	}
	ms[20].Attributes = map[string]string{"goog-x": ""}
	r.run(ms, Topic("orders"), OrderingHold)
	r.checkOnce(ids(ms))
	if len(r.published) != 20 || len(r.failed) != 30 {
		t.Fatalf("%d published, %d failed, want 20 and 30", len(r.published), len(r.failed))
	}
	for _, f := range r.failed {
		if f.Message.MessageID == "id-000020" && (f.Attempts != 0 || !f.Permanent) {
			t.Errorf("the illegal message was never sent: %+v", f)
		}
	}
}

func TestF21LimitsAreCheckedBeforeSending(t *testing.T) {
	r := newWriteRig(t)
	attrs := func(n, key, value int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("%0*d", key, i)] = strings.Repeat("v", value)
		}
		return m
	}
	legal := []Message{
		{MessageID: "1 byte", Data: []byte("x")},
		{MessageID: "9.99 MB", Data: make([]byte, 9_990_000)},
		{MessageID: "value 1024", Attributes: attrs(1, 1, 1024)},
		{MessageID: "key 256", Attributes: attrs(1, 256, 1)},
		{MessageID: "100 attributes", Attributes: attrs(100, 3, 1)},
	}
	bad := map[string][]string{ // what the reason must name
		"10 MB + 1":      {"data", "10000000", "100000"},
		"value 1025":     {"attribute value", "1024", "1025"},
		"key 257":        {"attribute key", "256", "257"},
		"101 attributes": {"attributes", "100", "101"},
		"goog":           {"goog", "reserved"},
		"empty":          {"data", "empty"},
		"ordering key":   {"orderingKey", "1024", "1025"},
		"UTF-8":          {"UTF-8"},
	}
	ms := slices.Concat(legal, []Message{
		{MessageID: "10 MB + 1", Data: make([]byte, 10_000_001)},
		{MessageID: "value 1025", Attributes: attrs(1, 1, 1025)},
		{MessageID: "key 257", Attributes: attrs(1, 257, 1)},
		{MessageID: "101 attributes", Attributes: attrs(101, 3, 1)},
		{MessageID: "goog", Attributes: map[string]string{"googclient": "x"}},
		{MessageID: "empty"},
		{MessageID: "ordering key", Data: []byte("x"), OrderingKey: strings.Repeat("k", 1025)},
		{MessageID: "UTF-8", Attributes: map[string]string{"k": "\xff"}},
	})
	r.run(ms, Topic("orders"))
	r.checkOnce(ids(ms))
	if len(r.published) != len(legal) || int(r.srv.TopicStats(testTopic).Messages) != len(legal) {
		t.Errorf("%d published, want %d", len(r.published), len(legal))
	}
	for _, f := range r.failed {
		if f.Attempts != 0 || !f.Permanent || f.Unknown {
			t.Errorf("%s: attempts %d, permanent %v, unknown %v", f.Message.MessageID, f.Attempts, f.Permanent, f.Unknown)
		}
		for _, word := range bad[f.Message.MessageID] {
			if !strings.Contains(f.Reason, word) {
				t.Errorf("%s: reason %q does not name %q", f.Message.MessageID, f.Reason, word)
			}
		}
	}
	for _, q := range r.srv.TopicStats(testTopic).RequestLog {
		if q.Bytes > maxRequestBytes {
			t.Errorf("a request of %d bytes", q.Bytes)
		}
	}
}

func TestF21RequestsStayBelowTheLimitTogether(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(30)
	for i := range ms {
		ms[i].Data = make([]byte, 999_000)
	}
	r.run(ms, Topic("orders"))
	r.checkOnce(ids(ms))
	if len(r.published) != 30 {
		t.Fatalf("%d of 30 published; %s", len(r.published), r.failed[0].Reason)
	}
	for _, q := range r.srv.TopicStats(testTopic).RequestLog {
		if q.Bytes > maxRequestBytes || q.Messages > 10 {
			t.Errorf("a request of %d messages, %d bytes", q.Messages, q.Bytes)
		}
	}
}

func TestF33UnknownDestinationFailsAlone(t *testing.T) {
	for _, mode := range []Batching{BatchBundle, BatchExact} {
		t.Run(string(mode), func(t *testing.T) {
			r := newWriteRig(t)
			topics := []string{"absent", "a b#", ""}
			for i := range 7 {
				topics = append(topics, r.topic(fmt.Sprint("topic-", i)))
			}
			ms := messages(100)
			for i := range ms {
				ms[i].Topic = topics[i%10]
			}
			opts := []WriteOption{mode}
			if mode == BatchExact {
				opts = append(opts, BatchDelay(50*time.Millisecond))
			}
			start := time.Now()
			r.run(ms, opts...)
			r.checkOnce(ids(ms))
			if len(r.published) != 70 || len(r.failed) != 30 {
				t.Errorf("%d published, %d failed, want 70 and 30", len(r.published), len(r.failed))
			}
			want := map[string]string{"absent": "NotFound", "a b#": "a b#", "": "empty"}
			for _, f := range r.failed {
				if word := want[f.Message.Topic]; word == "" || !strings.Contains(f.Reason, word) || !f.Permanent || f.Attempts > 1 {
					t.Errorf("failed %+v", f)
				}
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %v", d)
			}
			if c := r.srv.Connections(); c.Total != 1 {
				t.Errorf("%+v, want one connection", c)
			}
		})
	}
}

func TestBadMessageIsFoundInItsRequest(t *testing.T) {
	r := newWriteRig(t)
	r.srv.Inject(pubsubfake.Fault{
		Method: "Publish", Code: codes.InvalidArgument, Text: "schema says no",
		Match: func(m *pubsubpb.PubsubMessage) bool { return string(m.GetData()) == "id-000500" },
	})
	ms := messages(1000)
	r.run(ms, Topic("orders"))
	r.checkOnce(ids(ms))
	if len(r.failed) != 1 || r.failed[0].Message.MessageID != "id-000500" || !strings.Contains(r.failed[0].Reason, "schema says no") {
		t.Errorf("failed: %+v", r.failed)
	}
}

func TestOutcomesAreCounted(t *testing.T) {
	r := newWriteRig(t)
	r.srv.Inject(pubsubfake.Fault{Method: "Publish", Code: codes.Unavailable, Times: 1})
	ms := append(messages(100), Message{MessageID: "empty"})
	res := r.run(ms, Topic("orders"), BatchCount(50), PublishLatencyMetrics(true))
	counters := map[string]int64{}
	for _, c := range res.Metrics().AllMetrics().Counters() {
		if c.Key.Namespace == metricsNamespace {
			counters[c.Key.Name] += c.Result()
		}
	}
	for name, want := range map[string]int64{"published": 100, "failed": 1, "unknown": 0, "retried": 50} {
		if counters[name] != want {
			t.Errorf("%s = %d, want %d", name, counters[name], want)
		}
	}
	dists := map[string]int64{}
	for _, d := range res.Metrics().AllMetrics().Distributions() {
		dists[d.Key.Name] += d.Result().Count
	}
	if dists["batch_size"] != 2 || dists["publish_latency_ms"] != 100 {
		t.Errorf("distributions %v, want 2 of batch_size and 100 of publish_latency_ms", dists)
	}
	if r.published[0].Latency <= 0 {
		t.Error("no latency in the result")
	}
}

func TestAttributesForIDAndTime(t *testing.T) {
	r := newWriteRig(t)
	ms := []Message{
		{MessageID: "its-message-id", Data: []byte("a"), Attributes: map[string]string{"x": "y"}},
		{MessageID: "other", Data: []byte("b"), Attributes: map[string]string{"id": "its-own"}},
	}
	r.run(ms, Topic("orders"), IDAttribute("id"), TimestampAttribute("ts"))
	got := map[string]string{}
	for _, m := range r.srv.Published(testTopic) {
		got[string(m.GetData())] = fmt.Sprint(m.GetAttributes())
	}
	want := map[string]string{"a": "map[id:its-message-id ts:1000 x:y]", "b": "map[id:its-own ts:1001]"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %v, want %v", got, want)
	}
	if _, changed := ms[0].Attributes["id"]; changed {
		t.Error("the input was changed")
	}
	results := []string{r.published[0].ID, r.published[1].ID}
	slices.Sort(results)
	if fmt.Sprint(results) != "[its-message-id its-own]" {
		t.Errorf("outcomes for %v", results)
	}
}

func TestOrderingKeysCanBeDropped(t *testing.T) {
	r := newWriteRig(t)
	ms := messages(10)
	for i := range ms {
		ms[i].OrderingKey = fmt.Sprint(i)
	}
	r.run(ms, Topic("orders"), OrderingKeys(false))
	if st := r.srv.TopicStats(testTopic); st.Requests != 1 || st.Messages != 10 {
		t.Errorf("%d messages in %d requests, want one request", st.Messages, st.Requests)
	}
	for _, m := range r.srv.Published(testTopic) {
		if m.GetOrderingKey() != "" {
			t.Errorf("key %q was sent", m.GetOrderingKey())
		}
	}
}

// zipped counts publish requests by their compression.
type zipped struct{ gzip, plain atomic.Int64 }

func (z *zipped) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (z *zipped) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (z *zipped) HandleConn(context.Context, stats.ConnStats)                       {}
func (z *zipped) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.OutHeader); ok {
		if h.Compression == "gzip" {
			z.gzip.Add(1)
		} else {
			z.plain.Add(1)
		}
	}
}

func TestCompressionIsUsedOnRequest(t *testing.T) {
	for _, c := range []Compression{CompressionGzip, CompressionNone} {
		t.Run(string(c), func(t *testing.T) {
			r := newWriteRig(t)
			z := &zipped{}
			host, remove := inmemory.Register(func(o ...grpc.DialOption) (*grpc.ClientConn, error) {
				return r.srv.Dial(context.Background(), append(o, grpc.WithStatsHandler(z))...)
			})
			defer remove()
			r.conn.EmulatorHost = host
			r.run(messages(100), Topic("orders"), c)
			if len(r.published) != 100 {
				t.Errorf("%d of 100 published", len(r.published))
			}
			if want := c == CompressionGzip; (z.gzip.Load() > 0) != want || (z.plain.Load() > 0) == want {
				t.Errorf("%d requests with gzip, %d without", z.gzip.Load(), z.plain.Load())
			}
		})
	}
}

func TestWriteRefusesMistakesAtOnce(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	col := beam.Create(s, "not a message")
	if _, err := TryWrite(s, Connection{}, col, Topic("x"), BatchCount(1001), MaxAttempts(0)); err == nil ||
		!strings.Contains(err.Error(), "batchCount") || !strings.Contains(err.Error(), "maxAttempts") || !strings.Contains(err.Error(), "topic") {
		t.Errorf("TryWrite = %v, want every mistake", err)
	}
	conn := Connection{ProjectID: testProject}
	if _, err := TryWrite(s, conn, col, Topic("orders")); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("TryWrite of strings = %v", err)
	}
	defer func() {
		if v := recover(); v == nil {
			t.Error("Write did not panic")
		}
	}()
	Write(s, conn, beam.PCollection{}, Topic("orders"))
}

func TestF27ClosedPortIsNamedAndNotUnknown(t *testing.T) {
	r := newWriteRig(t)
	r.conn.EmulatorHost = "127.0.0.1:1"
	ms := messages(120)
	start := time.Now()
	r.run(ms, Topic("orders"), MaxAttempts(3))
	r.checkOnce(ids(ms))
	if len(r.failed) != 120 {
		t.Fatalf("%d failed, want 120", len(r.failed))
	}
	for _, f := range r.failed {
		if f.Attempts != 3 || f.Unknown || f.Permanent || !strings.Contains(f.Reason, "127.0.0.1:1") || !strings.Contains(f.Reason, "refused") {
			t.Fatalf("failed %+v", f)
		}
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}
