package pubsubio

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamgraph "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/internal/queue"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func init() {
	register.DoFn1x0[Message](&keepMessageFn{})
	register.DoFn1x0[FailedMessage](&keepUndecodedFn{})
}

// A prismRig reads the fake service in a pipeline on Prism, in this process.
type prismRig struct {
	*readRig
	key string

	mu      sync.Mutex
	got     []Message
	failed  []FailedMessage
	arrived chan struct{} // one signal for each message
}

var prismRigs sync.Map // key -> *prismRig

func newPrismRig(t *testing.T, opts ...pubsubfake.Option) *prismRig {
	t.Helper()
	r := &prismRig{
		readRig: &readRig{T: t, srv: pubsubfake.New(opts...)}, key: rand.Text(),
		arrived: make(chan struct{}, 100_000),
	}
	host, remove := inmemory.Register(func(o ...grpc.DialOption) (*grpc.ClientConn, error) {
		return r.srv.Dial(t.Context(), o...)
	})
	r.conn = Connection{ProjectID: testProject, EmulatorHost: host}
	prismRigs.Store(r.key, r)
	t.Cleanup(func() {
		r.endJob()
		subscribers.CloseIdle()
		prismRigs.Delete(r.key)
		remove()
		r.srv.Close()
	})
	if err := r.srv.AddTopic(testTopic); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.AddSubscription(testSub, testTopic); err != nil {
		t.Fatal(err)
	}
	return r
}

// endJob closes the readers; unlike readRig's it may run in a clean-up.
func (r *prismRig) endJob() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := queue.CloseAll(ctx); err != nil {
		r.Error(err)
	}
}

// run reads until during returns, drains, and waits for the job's end.
func (r *prismRig) run(during func(), opts ...ReadOption) (beam.PipelineResult, error) {
	r.Helper()
	p, s := beam.NewPipelineWithRoot()
	in := Read(s, r.conn, "orders-sub", opts...)
	beam.ParDo0(s, &keepMessageFn{Key: r.key}, in.Messages)
	beam.ParDo0(s, &keepUndecodedFn{Key: r.key}, in.Failed)
	ended := make(chan struct{})
	var lift func()
	go func() {
		defer close(ended)
		during()
		lift = queue.DrainAll(time.Second)
	}()
	res, err := beam.Run(r.Context(), "prism", p)
	<-ended
	lift()
	return res, err
}

// await waits for n more messages.
func (r *prismRig) await(n int) {
	limit := time.After(20 * time.Second)
	for i := range n {
		select {
		case <-r.arrived:
		case <-limit:
			r.Errorf("%d of %d messages within 20s", i, n)
			return
		}
	}
}

type keepMessageFn struct{ Key string }

func (f *keepMessageFn) ProcessElement(m Message) {
	v, _ := prismRigs.Load(f.Key)
	r := v.(*prismRig)
	r.mu.Lock()
	r.got = append(r.got, m)
	r.mu.Unlock()
	r.arrived <- struct{}{}
}

type keepUndecodedFn struct{ Key string }

func (f *keepUndecodedFn) ProcessElement(m FailedMessage) {
	v, _ := prismRigs.Load(f.Key)
	r := v.(*prismRig)
	r.mu.Lock()
	r.failed = append(r.failed, m)
	r.mu.Unlock()
	r.arrived <- struct{}{}
}

func TestReadOnPrism(t *testing.T) {
	r := newPrismRig(t)
	r.publish(2000)
	if _, err := r.run(func() { r.await(2000) }); err != nil {
		t.Fatal(err)
	}
	r.checkAll(r.got, 2000)
	if s := r.srv.Stats(testSub); s.Acked != 2000 || s.Unacked != 0 || s.Delivered != 2000 {
		t.Errorf("%+v", s)
	}
	if c := r.srv.Connections(); c.Peak != 1 {
		t.Errorf("%+v", c)
	}
}

func TestReadOnPrismEndsWithAClearError(t *testing.T) {
	r := newPrismRig(t)
	r.publish(5)
	_, err := r.run(func() {
		r.await(5)
		if _, err := r.srv.DeleteSubscription(r.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: testSub}); err != nil {
			r.Error(err)
		}
		time.Sleep(500 * time.Millisecond)
	})
	if err == nil || !strings.Contains(err.Error(), testSub) || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the job's error: %v", err)
	}
}

func TestMetricsReachBeam(t *testing.T) {
	r := newPrismRig(t)
	for i := range 25 {
		body := fmt.Sprintf(`{"id":%d}`, 100+i)
		if i == 7 {
			body = "nonsense!!"
		}
		r.store(&pubsubpb.PubsubMessage{Data: []byte(body)})
	}
	r.srv.Inject(pubsubfake.Fault{Method: "Acknowledge", Code: 14, Times: 2})
	one := &pubsubpb.PubsubMessage{Data: []byte(`{"id":200}`), Attributes: map[string]string{"ts": "never"}}
	res, err := r.run(func() {
		r.await(25)
		for end := time.Now().Add(10 * time.Second); r.srv.Stats(testSub).Acked < 25 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		r.store(one) // the call that brings it reports what came before
		r.await(1)
		for end := time.Now().Add(10 * time.Second); r.srv.Stats(testSub).Acked < 26 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
	}, Schema("id BIGINT"), TimestampAttribute("ts"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	q := res.Metrics().AllMetrics()
	for _, c := range q.Counters() {
		if c.Namespace() == metricsNamespace {
			got[c.Name()] += c.Result()
		}
	}
	for _, g := range q.Gauges() {
		if g.Namespace() == metricsNamespace {
			got[g.Name()] = g.Result().Value
		}
	}
	for name, want := range map[string]int64{
		"received": 26, "emitted": 26, "acked": 26, "decode_failed": 1,
		"unsettled": 0, "unsettled_bytes": 0, "backlog": 0, "oldest_unsettled_ms": 0,
		"outstandingPayloadBytes": 0, "lastGatherMessageCount": 1, "lastGatherPayloadBytes": int64(len(one.Data) + len("tsnever")),
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %d (reported: %v), want %d", name, v, ok, want)
		}
	}
	for _, name := range []string{"nacked", "expired", "redelivered", "reconnects", "lease_expired", "ack_expired"} {
		if got[name] != 0 {
			t.Errorf("%s is %d", name, got[name])
		}
	}
	if got["pubsubRetryAttemptsTotal"] != 2 {
		t.Errorf("pubsubRetryAttemptsTotal is %d", got["pubsubRetryAttemptsTotal"])
	}
	if age := got["lastGatherNewestMessageAgeMs"]; age < 0 || age > 5000 {
		t.Errorf("lastGatherNewestMessageAgeMs is %d", age)
	}
	if p, c := got["lastProducedBatchId"], got["lastConsumedBatchId"]; p < 1 || p != c {
		t.Errorf("lastProducedBatchId is %d, lastConsumedBatchId %d", p, c)
	}
	for _, name := range []string{"pubsubRetryAttempts", "timestamp_fallback_total", "watermark_lag_ms"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not reported: %v", name, got)
		}
	}
	if got["timestamp_fallback_total"] < 26 {
		t.Errorf("timestamp_fallback_total is %d", got["timestamp_fallback_total"])
	}
}

const testSecret = "S3cr3t-Zq9"

// showsSecret looks for the secret in a text, in every run of base64 in it, and
// in those within.
func showsSecret(text string) bool {
	if strings.Contains(text, testSecret) {
		return true
	}
	for _, run := range regexp.MustCompile(`[A-Za-z0-9+/_-]{12,}={0,2}`).FindAllString(text, -1) {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if b, err := enc.DecodeString(run); err == nil && len(b) < len(text) && showsSecret(string(b)) {
				return true
			}
		}
	}
	return false
}

func TestShowsSecretLooksDeep(t *testing.T) {
	in := base64.StdEncoding.EncodeToString([]byte("x" + testSecret))
	if !showsSecret("a " + base64.URLEncoding.EncodeToString([]byte("{"+in+"}")) + " b") {
		t.Error("not found in two layers of base64")
	}
}

func TestF24NoSecretLeavesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	key := fmt.Sprintf(`{"type":"service_account","client_email":"a@b","private_key_id":"1","private_key":"%s","token_uri":"http://127.0.0.1:1/token"}`, testSecret)
	if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
	t.Setenv("BROKER_PASSWORD", testSecret)
	var logs bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)

	conn := Connection{ProjectID: testProject, CredentialsFile: path, Endpoint: "127.0.0.1:1"}
	p, s := beam.NewPipelineWithRoot()
	in := Read(s, conn, "orders-sub", SchemaMixed, SeekBeginning)
	Write(s, conn, in.Messages, Topic("orders"))
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	env, err := beamgraph.CreateEnvironment(t.Context(), "beam:env:external:v1", func(context.Context) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	pb, err := beamgraph.Marshal(edges, &beamgraph.Options{Environment: env})
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "orders") && len(text) < 1000 {
		t.Errorf("a proto of %d bytes", len(text))
	}
	if showsSecret(string(text)) {
		t.Error("the pipeline proto shows the secret")
	}
	_, err = getSubscription(deadline(t, 200*time.Millisecond), conn, testSub)
	if err == nil || showsSecret(err.Error()) || !strings.Contains(err.Error(), "key.json") && !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
	for _, v := range []any{conn, &readFn{Conn: conn}, &prepareFn{Conn: conn}} {
		for _, f := range []string{"%v", "%+v", "%#v"} {
			if showsSecret(fmt.Sprintf(f, v)) {
				t.Errorf("%s of %T shows the secret", f, v)
			}
		}
	}
	if showsSecret(logs.String()) {
		t.Errorf("the log shows the secret: %s", logs.String())
	}
}

func TestNumWritersSplitsEachBundle(t *testing.T) {
	r := newPrismRig(t)
	r.publish(103)
	if _, err := r.run(func() { r.await(103) }, NumWriters(4), BatchCount(1000), MaxOutstandingMessages(1000), MetadataFull); err != nil {
		t.Fatal(err)
	}
	r.checkAll(r.got, 103)
	if s := r.srv.Stats(testSub); s.Acked != 103 {
		t.Errorf("%+v", s)
	}
	for _, m := range r.got {
		if m.MessageID == "" || m.PublishTime.IsZero() || m.AckID == "" || m.Attributes["n"] != string(m.Data) {
			t.Fatalf("%+v", m)
		}
	}

	for n, want := range map[int]int{1: 1, 4: 4, 16: 10, Auto: min(runtime.NumCPU(), 10)} {
		f, parts := &splitBundleFn{N: n}, 0
		emit := func(at beam.EventTime, b []byte) {
			parts++
			first := true
			err := (&joinPartFn{}).ProcessElement(b, func(et beam.EventTime, m Message) {
				if first && et != at || et < at {
					t.Errorf("a message of %v in a part of %v", et, at)
				}
				first = false
			})
			if err != nil {
				t.Error(err)
			}
		}
		f.StartBundle(emit)
		for i := range 10 {
			if err := f.ProcessElement(beam.EventTime(1000+i), Message{Data: []byte{byte(i)}}, emit); err != nil {
				t.Fatal(err)
			}
		}
		f.FinishBundle(emit)
		if parts != want {
			t.Errorf("%d parts of 10 messages for %d writers, want %d", parts, n, want)
		}
	}
}

func TestPartsKeepKeysTogether(t *testing.T) {
	f, parts := &splitBundleFn{N: 3}, 0
	home := map[string]int{}
	last := map[string]byte{}
	emit := func(_ beam.EventTime, b []byte) {
		parts++
		if err := (&joinPartFn{}).ProcessElement(b, func(_ beam.EventTime, m Message) {
			if at, ok := home[m.OrderingKey]; ok && (at != parts || m.Data[0] <= last[m.OrderingKey]) {
				t.Errorf("key %s in parts %d and %d, %d after %d", m.OrderingKey, at, parts, m.Data[0], last[m.OrderingKey])
			}
			home[m.OrderingKey], last[m.OrderingKey] = parts, m.Data[0]
		}); err != nil {
			t.Error(err)
		}
	}
	f.StartBundle(emit)
	for i := range 100 {
		if err := f.ProcessElement(5, Message{Data: []byte{byte(i)}, OrderingKey: fmt.Sprint("k", i%7)}, emit); err != nil {
			t.Fatal(err)
		}
	}
	f.FinishBundle(emit)
	if len(home) != 7 || parts > 3 || parts < 2 {
		t.Errorf("%d keys in %d parts", len(home), parts)
	}
	for _, cut := range [][]byte{{0x80}, {2, 0x80}, {2, 9, 1}, {2, 1, 77}} {
		if err := (&joinPartFn{}).ProcessElement(cut, func(beam.EventTime, Message) {}); err == nil {
			t.Errorf("%v is taken for a part", cut)
		}
	}
}

// F32: what a job has written down is read by the next version.
func TestF32StateOfFormerVersionsIsRead(t *testing.T) {
	type state struct {
		Restriction queue.Restriction
		Watermark   queue.WatermarkState
	}
	now := []state{
		{},
		{queue.Restriction{Slot: 3, Epoch: 41}, queue.WatermarkState{MS: 1764470000123, FloorMS: 1764460000000, FloorUntilMS: 1764470060000}},
		{queue.Restriction{Slot: 1, Epoch: 7, Done: true}, queue.InitialState()},
	}
	files, err := filepath.Glob("testdata/readstate-v*.golden")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		files = []string{"testdata/readstate-v1.golden"}
		writeState(t, files[0], now)
	}
	if len(files) == 0 {
		t.Fatal("no golden file; run with -update")
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		for i, want := range now {
			var got state
			// As JSON, and with the coders that a runner keeps.
			var line struct{ JSON, Restriction, Watermark json.RawMessage }
			if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(line.JSON, &got); err != nil || got != want {
				t.Errorf("%s: JSON of %d: %+v, %v", f, i, got, err)
			}
			if r := decodeGolden[queue.Restriction](t, line.Restriction); r != want.Restriction {
				t.Errorf("%s: restriction %d: %+v", f, i, r)
			}
			if w := decodeGolden[queue.WatermarkState](t, line.Watermark); w != want.Watermark {
				t.Errorf("%s: watermark %d: %+v", f, i, w)
			}
		}
	}
	// What is written today is what the newest file holds.
	tmp := filepath.Join(t.TempDir(), "now")
	writeState(t, tmp, now)
	a, _ := os.ReadFile(tmp)
	b, _ := os.ReadFile(files[len(files)-1])
	if !bytes.Equal(a, b) {
		t.Errorf("the encoding has changed: keep the old file, add a new one, and see that both are read\n%s\n%s", a, b)
	}
}

func writeState[S any](t *testing.T, path string, states []S) {
	t.Helper()
	var out bytes.Buffer
	for _, s := range states {
		v := reflect.ValueOf(s)
		line := map[string]any{"JSON": s, "Restriction": encodeGolden(t, v.Field(0)), "Watermark": encodeGolden(t, v.Field(1))}
		b, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func encodeGolden(t *testing.T, v reflect.Value) string {
	t.Helper()
	var b bytes.Buffer
	if err := beam.NewElementEncoder(v.Type()).Encode(v.Interface(), &b); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func decodeGolden[T any](t *testing.T, text json.RawMessage) T {
	t.Helper()
	var s []byte
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	v, err := beam.NewElementDecoder(reflect.TypeFor[T]()).Decode(bytes.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return v.(T)
}

func TestF04JobsLeaveNoGoroutines(t *testing.T) {
	r := newPrismRig(t)
	once := func() {
		r.publish(20)
		if _, err := r.run(func() { r.await(20) }); err != nil {
			t.Fatal(err)
		}
		r.endJob()
		subscribers.CloseIdle()
	}
	settled := func() int {
		n := runtime.NumGoroutine()
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			now := runtime.NumGoroutine()
			if now >= n {
				return now
			}
			n = now
		}
		return n
	}
	once()
	before := settled()
	for range 3 {
		once()
	}
	if now := settled(); now > before+5 {
		t.Errorf("%d goroutines after one job, %d after four", before, now)
	}
	if c := r.srv.Connections(); c.Open != 0 || len(readers.All()) != 0 {
		t.Errorf("%+v, %d readers at the end", c, len(readers.All()))
	}
}
