package bridge

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/beam-brokers/beam-brokers/internal/race"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestEverythingOfAMessageArrivesAndIsAcknowledged(t *testing.T) {
	const n = 2000
	srv, addr := fake(t, n)
	r := start(t, pubsubConfig(addr, nil, nil))
	r.until("all messages", func() bool { return srv.TopicStats(toTopic).Messages == n })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range srv.Published(toTopic) {
		i := m.Attributes["n"]
		k, _ := strconv.Atoi(i)
		if string(m.Data) != "body "+i || m.Attributes["color"] != "red" || len(m.Attributes) != 2 || m.OrderingKey != "key "+strconv.Itoa(k%3) {
			t.Fatalf("message %s arrived as %v", i, m)
		}
		seen[i] = true
	}
	s := srv.Stats(fromSub)
	if len(seen) != n || s.Unacked != 0 || s.Acked != n {
		t.Errorf("%d arrived, %d acknowledged, %d left", len(seen), s.Acked, s.Unacked)
	}
	if got := r.Status(t.Context()); got.Read != n || got.Written != n || got.Failed != 0 || got.State != stateStopped {
		t.Errorf("status %+v", got)
	}
}

// refuseEvery makes the sink refuse each tenth message, until it is removed.
func refuseEvery(srv *pubsubfake.Server) *pubsubfake.Injected {
	return srv.Inject(pubsubfake.Fault{
		Method: "Publish", Topic: toTopic, Code: codes.InvalidArgument, Text: "it smells",
		Match: func(m *pubsubpb.PubsubMessage) bool {
			i, _ := strconv.Atoi(m.Attributes["n"])
			return i%10 == 0
		},
	})
}

func TestAFailureStopsAndLeavesTheMessages(t *testing.T) {
	srv, addr := fake(t, 50)
	refuseEvery(srv)
	r := start(t, pubsubConfig(addr, nil, nil))
	err := r.wait()
	if err == nil || !strings.Contains(err.Error(), "it smells") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if s := srv.Stats(fromSub); s.Acked != 0 || s.Unacked != 50 || s.Outstanding != 0 {
		t.Errorf("acknowledged %d, left %d, not given back %d", s.Acked, s.Unacked, s.Outstanding)
	}
	if r.State() != stateFailed {
		t.Error(r.State())
	}
}

func TestDroppedMessagesAreCountedAndSettled(t *testing.T) {
	srv, addr := fake(t, 50)
	refuseEvery(srv)
	c := pubsubConfig(addr, nil, nil)
	c.OnFailure = OnFailureDrop
	r := start(t, c)
	r.until("settling", func() bool { return srv.Stats(fromSub).Unacked == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(t.Context()); s.Dropped != 5 || s.Failed != 5 || s.Written != 45 {
		t.Errorf("status %+v", s)
	}
}

func TestDeadLettersHoldMessageAndReason(t *testing.T) {
	srv, addr := fake(t, 50)
	refuseEvery(srv)
	c := pubsubConfig(addr, nil, nil)
	c.DeadLetter = Endpoint{"pubsub", map[string]string{"emulatorHost": addr, "topic": deadTopic}}
	r := start(t, c)
	r.until("settling", func() bool { return srv.Stats(fromSub).Unacked == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	letters := srv.Published(deadTopic)
	if len(letters) != 5 || srv.TopicStats(toTopic).Messages != 45 {
		t.Fatalf("%d dead letters, %d written", len(letters), srv.TopicStats(toTopic).Messages)
	}
	for _, m := range letters {
		a := m.Attributes
		if string(m.Data) != "body "+a["n"] || a["color"] != "red" || !strings.Contains(a["dead_letter_reason"], "it smells") ||
			a["dead_letter_id"] == "" || !strings.Contains(a["dead_letter_source"], fromSub) || m.OrderingKey == "" {
			t.Errorf("dead letter %v", m)
		}
	}
	if s := r.Status(t.Context()); s.DeadLettered != 5 || s.Written != 45 {
		t.Errorf("status %+v", s)
	}
}

func TestADeadLetterThatCannotBeWrittenStops(t *testing.T) {
	srv, addr := fake(t, 50)
	refuseEvery(srv)
	srv.Inject(pubsubfake.Fault{Method: "Publish", Topic: deadTopic, Code: codes.PermissionDenied, Text: "not you"})
	c := pubsubConfig(addr, nil, nil)
	c.DeadLetter = Endpoint{"pubsub", map[string]string{"emulatorHost": addr, "topic": deadTopic}}
	if err := start(t, c).wait(); err == nil || !strings.Contains(err.Error(), "dead letter") {
		t.Errorf("error %v", err)
	}
	if s := srv.Stats(fromSub); s.Acked != 0 || s.Unacked != 50 {
		t.Errorf("acknowledged %d, left %d", s.Acked, s.Unacked)
	}
}

func TestRetryGoesOnUntilItWorks(t *testing.T) {
	srv, addr := fake(t, 20)
	fault := refuseEvery(srv)
	c := pubsubConfig(addr, nil, nil)
	c.OnFailure = OnFailureRetry
	r := start(t, c)
	r.until("a retry", func() bool { return r.Counters().Retrying.Load() > 0 })
	if s := srv.Stats(fromSub); s.Acked != 0 {
		t.Errorf("acknowledged %d while messages of the bundle are tried again", s.Acked)
	}
	fault.Remove()
	r.until("settling", func() bool { return srv.Stats(fromSub).Unacked == 0 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(t.Context()); s.Retrying != 0 || s.Written != 20 || srv.TopicStats(toTopic).Messages != 20 {
		t.Errorf("status %+v, written %d", s, srv.TopicStats(toTopic).Messages)
	}
}

func TestASecondSignalStopsAtOnceAndGivesBack(t *testing.T) {
	race.SkipCancel(t)
	srv, addr := fake(t, 20)
	fault := srv.Inject(pubsubfake.Fault{Method: "Publish", Topic: toTopic, Hang: true})
	r := start(t, pubsubConfig(addr, nil, nil))
	r.until("a publish", func() bool { return fault.Fired() > 0 })
	r.drain()
	close(r.now)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if s := srv.Stats(fromSub); s.Acked != 0 || s.Unacked != 20 || s.Outstanding != 0 {
		t.Errorf("acknowledged %d, left %d, not given back %d", s.Acked, s.Unacked, s.Outstanding)
	}
}

func TestCheckMovesNothing(t *testing.T) {
	srv, addr := fake(t, 5)
	j, err := New(pubsubConfig(addr, map[string]string{"seek": "beginning"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"Seek", "StreamingPull", "Pull", "Publish"} {
		if n := srv.RPCs()[call]; n > 0 {
			t.Errorf("%s was called %d times", call, n)
		}
	}
	j, err = New(pubsubConfig(addr, map[string]string{"subscription": fromSub + "-no"}, map[string]string{"topic": toTopic + "-no"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "from: ") || !strings.Contains(err.Error(), "to: ") || !strings.Contains(err.Error(), "to-topic-no") {
		t.Errorf("error %v", err)
	}
}

func TestWebSide(t *testing.T) {
	srv, addr := fake(t, 100)
	r := start(t, pubsubConfig(addr, nil, nil))
	web := httptest.NewServer(r.handler())
	defer web.Close()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	r.until("settling", func() bool { return srv.Stats(fromSub).Unacked == 0 && r.Status(t.Context()).Acked >= 100 })
	if code, body := get("/healthz"); code != http.StatusOK || body != "running\n" {
		t.Errorf("health %d %q", code, body)
	}
	var s Status
	if _, body := get("/status"); json.Unmarshal([]byte(body), &s) != nil || s.Written != 100 || s.To != "topic "+toTopic {
		t.Errorf("status %+v", s)
	}
	_, metrics := get("/metrics")
	for _, want := range []string{"bridge_read_total 100\n", "bridge_written_total 100\n", "bridge_up 1\n", `beam_published_total{connector="pubsubio"} 100`, "beam_batch_size_count", "process_cpu_seconds_total"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if code, body := get("/"); code != http.StatusOK || !strings.Contains(body, "<title>bridge</title>") {
		t.Errorf("page %d", code)
	}
	if code, _ := get("/nothing"); code != http.StatusNotFound {
		t.Errorf("unknown path: %d", code)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if code, body := get("/healthz"); code != http.StatusServiceUnavailable || body != "stopped\n" {
		t.Errorf("health %d %q", code, body)
	}
}
