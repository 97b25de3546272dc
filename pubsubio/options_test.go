package pubsubio

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

func init() {
	RegisterWatermarkFunc("mine", func(s WatermarkState) time.Time { return s.Now })
}

// effect is a row of the option tables: a sample, what else it needs to be
// legal, and what it makes of the settings.
type effect[C any] struct {
	name, sample string
	with         map[string]string
	want         any
	got          func(c C, conn Connection) any
}

func field[C, T any](f func(C) T) func(C, Connection) any {
	return func(c C, _ Connection) any { return f(c) }
}

func connField[C any](f func(Connection) string) func(C, Connection) any {
	return func(_ C, conn Connection) any { return f(conn) }
}

type readEffect = effect[readConfig]

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// with returns the options another one needs.
func with(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

var readEffects = []readEffect{
	{"projectId", "other", with("subscription", "id-only"), "projects/other/subscriptions/id-only", field(func(c readConfig) string { return c.Subscription })},
	{"credentialsFile", "/k.json", nil, "/k.json", connField[readConfig](func(c Connection) string { return c.CredentialsFile })},
	{"emulatorHost", "localhost:8085", nil, "localhost:8085", connField[readConfig](func(c Connection) string { return c.EmulatorHost })},
	{"endpoint", "eu-pubsub:443", nil, "eu-pubsub:443", connField[readConfig](func(c Connection) string { return c.Endpoint })},
	{"subscription", "projects/q/subscriptions/sub", nil, "projects/q/subscriptions/sub", field(func(c readConfig) string { return c.Subscription })},
	{"seek", "beginning", nil, SeekBeginning, field(func(c readConfig) Seek { return c.Seek })},
	{"seekTime", "2024-08-07T12:00:29.028-03:00", with("seek", "timestamp"), at("2024-08-07T15:00:29.028Z"), field(func(c readConfig) time.Time { return c.SeekTime })},
	{"seekSnapshot", "recovery", with("seek", "snapshot"), "projects/my-project/snapshots/recovery", field(func(c readConfig) string { return c.SeekSnapshot })},
	{"trigger", "availableNow", nil, TriggerAvailableNow, field(func(c readConfig) Trigger { return c.Trigger })},
	{"limitTime", "2026-09-18T12:34:45Z", with("trigger", "availableNow"), at("2026-09-18T12:34:45Z"), field(func(c readConfig) time.Time { return c.LimitTime })},
	{"gatherMode", "immediate", nil, GatherImmediate, field(func(c readConfig) GatherMode { return c.GatherMode })},
	{"gatherMode", "pull", nil, GatherImmediate, field(func(c readConfig) GatherMode { return c.GatherMode })},
	{"receiveTime", "20", nil, 20 * time.Second, field(func(c readConfig) time.Duration { return c.ReceiveTime })},
	{"receiveTime", "auto", nil, time.Duration(0), field(func(c readConfig) time.Duration { return c.ReceiveTime })},
	{"processingTime", "1m", nil, time.Minute, field(func(c readConfig) time.Duration { return c.ProcessingTime })},
	{"batchSize", "2m", nil, int64(2 << 20), field(func(c readConfig) int64 { return c.BatchSize })},
	{"batchSize", "2m", nil, int64(2 << 20), field(func(c readConfig) int64 { return c.MaxOutstandingBytes })},
	{"batchCount", "250", nil, 250, field(func(c readConfig) int { return c.BatchCount })},
	{"batchCount", "250", nil, 250, field(func(c readConfig) int { return c.MaxOutstandingMessages })},
	{"numWriters", "4", nil, 4, field(func(c readConfig) int { return c.NumWriters })},
	{"numWriters", "auto", nil, Auto, field(func(c readConfig) int { return c.NumWriters })},
	{"ackMode", "early", nil, AckEarly, field(func(c readConfig) AckMode { return c.AckMode })},
	{"ackDeadline", "30s", nil, 30 * time.Second, field(func(c readConfig) time.Duration { return c.ackDeadline(time.Hour) })},
	{"ackDeadline", "30s", nil, 30 * time.Second, field(func(c readConfig) time.Duration { return c.retryTime(c.AckDeadline) })},
	{"maxRetryTime", "1500ms", nil, 1500 * time.Millisecond, field(func(c readConfig) time.Duration { return c.retryTime(time.Minute) })},
	{"commitTimeout", "15m", nil, 15 * time.Minute, field(func(c readConfig) time.Duration { return c.CommitTimeout })},
	{"schemaMode", "mixed", nil, SchemaMixed, field(func(c readConfig) SchemaMode { return c.SchemaMode })},
	{"metadataMode", "full", nil, MetadataFull, field(func(c readConfig) MetadataMode { return c.MetadataMode })},
	{"topic", "my-topic", with("schemaMode", "dynamic"), "projects/my-project/topics/my-topic", field(func(c readConfig) string { return c.Topic })},
	{"schema", "id BIGINT, name STRING", nil, "id BIGINT, name STRING", field(func(c readConfig) string { return c.Schema })},
	{"maxOutstandingMessages", "1000", nil, 1000, field(func(c readConfig) int { return c.MaxOutstandingMessages })},
	{"maxOutstandingBytes", "1k", nil, int64(1024), field(func(c readConfig) int64 { return c.MaxOutstandingBytes })},
	{"maxOutstandingBytes", "1k", nil, int64(1024), field(func(c readConfig) int64 { return c.BatchSize })},
	{"maxWorkers", "3", nil, 3, field(func(c readConfig) int { return c.MaxWorkers })},
	{"clientsPerWorker", "2", with("streams", "2"), 2, field(func(c readConfig) int { return c.ClientsPerWorker })},
	{"streams", "2", nil, 2, field(func(c readConfig) int { return c.Streams })},
	{"stallTimeout", "40s", nil, 40 * time.Second, field(func(c readConfig) time.Duration { return c.StallTimeout })},
	{"runner", "PrismRunner", nil, "prism", field(func(c readConfig) string { return c.Runner })},
	{"timestampAttribute", "ts", nil, "ts", field(func(c readConfig) string { return c.TimestampAttribute })},
	{"timestampSlack", "30", with("timestampAttribute", "ts"), 30 * time.Second, field(func(c readConfig) time.Duration { return c.TimestampSlack })},
	{"idAttribute", "id", nil, "id", field(func(c readConfig) string { return c.IDAttribute })},
	{"watermarkPolicy", "wallTime", nil, WatermarkWallTime, field(func(c readConfig) WatermarkPolicy { return c.WatermarkPolicy })},
	{"maxLag", "2m", with("watermarkPolicy", "publishTimeWithMaxLag"), 2 * time.Minute, field(func(c readConfig) time.Duration { return c.MaxLag })},
	{"watermarkFunc", "mine", nil, "mine", field(func(c readConfig) string { return c.WatermarkFunc })},
	{"idleThreshold", "10s", nil, 10 * time.Second, field(func(c readConfig) time.Duration { return c.IdleThreshold })},
}

// legalRead is the least a source needs.
func legalRead(more map[string]string, kv ...string) map[string]string {
	m := with("projectId", "my-project", "subscription", "my-subscription")
	for k, v := range more {
		m[k] = v
	}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func TestReadOptionsHaveEffect(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range readEffects {
		seen[e.name] = true
		s, err := ReadFromMap(legalRead(e.with, e.name, e.sample))
		if err != nil {
			t.Errorf("%s=%s: %v", e.name, e.sample, err)
			continue
		}
		c, err := newReadConfig(s.Connection, s.Subscription, s.Options...)
		if err != nil {
			t.Errorf("%s=%s: %v", e.name, e.sample, err)
			continue
		}
		if got := e.got(c, s.Connection); !reflect.DeepEqual(got, e.want) {
			t.Errorf("%s=%s gives %v, want %v", e.name, e.sample, got, e.want)
		}
	}
	for _, row := range readTable.Rows() {
		if !seen[row.Name] {
			t.Errorf("option %s has no case", row.Name)
		}
	}
}

var writeEffects = []effect[writeConfig]{
	{"projectId", "other", with("topic", "id-only"), "projects/other/topics/id-only", field(func(c writeConfig) string { return c.Topic })},
	{"projectId", "other", nil, "other", field(func(c writeConfig) string { return c.ProjectID })},
	{"credentialsFile", "/k.json", nil, "/k.json", connField[writeConfig](func(c Connection) string { return c.CredentialsFile })},
	{"emulatorHost", "localhost:8085", nil, "localhost:8085", connField[writeConfig](func(c Connection) string { return c.EmulatorHost })},
	{"endpoint", "eu-pubsub:443", nil, "eu-pubsub:443", connField[writeConfig](func(c Connection) string { return c.Endpoint })},
	{"topic", "my-topic", nil, "projects/my-project/topics/my-topic", field(func(c writeConfig) string { return c.Topic })},
	{"idAttribute", "id", nil, "id", field(func(c writeConfig) string { return c.IDAttribute })},
	{"timestampAttribute", "ts", nil, "ts", field(func(c writeConfig) string { return c.TimestampAttribute })},
	{"orderingKeys", "FALSE", nil, false, field(func(c writeConfig) bool { return c.OrderingKeys })},
	{"orderingFailure", "hold", nil, OrderingHold, field(func(c writeConfig) OrderingFailure { return c.OrderingFailure })},
	{"batching", "exact", nil, BatchExact, field(func(c writeConfig) Batching { return c.Batching })},
	{"batching", "exact", nil, 50, field(func(c writeConfig) int { return c.BatchCount })},
	{"batching", "bundle", nil, 1000, field(func(c writeConfig) int { return c.BatchCount })},
	{"batching", "streaming", nil, 1, field(func(c writeConfig) int { return c.BatchCount })},
	{"batchCount", "100", nil, 100, field(func(c writeConfig) int { return c.BatchCount })},
	{"batchSize", "1m", nil, int64(1 << 20), field(func(c writeConfig) int64 { return c.BatchSize })},
	{"batchDelay", "2s", with("batching", "exact"), 2 * time.Second, field(func(c writeConfig) time.Duration { return c.BatchDelay })},
	{"publishTimeout", "30", nil, 30 * time.Second, field(func(c writeConfig) time.Duration { return c.PublishTimeout })},
	{"maxAttempts", "3", nil, 3, field(func(c writeConfig) int { return c.MaxAttempts })},
	{"maxOutstandingMessages", "5000", nil, 5000, field(func(c writeConfig) int { return c.MaxOutstandingMessages })},
	{"maxOutstandingBytes", "32m", nil, int64(32 << 20), field(func(c writeConfig) int64 { return c.MaxOutstandingBytes })},
	{"maxWorkers", "4", nil, 4, field(func(c writeConfig) int { return c.MaxWorkers })},
	{"clientsPerWorker", "2", nil, 2, field(func(c writeConfig) int { return c.ClientsPerWorker })},
	{"compression", "gzip", nil, CompressionGzip, field(func(c writeConfig) Compression { return c.Compression })},
	{"publishLatencyMetrics", "true", nil, true, field(func(c writeConfig) bool { return c.PublishLatencyMetrics })},
	{"runner", "FlinkRunner", nil, "flink", field(func(c writeConfig) string { return c.Runner })},
}

func legalWrite(more map[string]string, kv ...string) map[string]string {
	m := legalRead(more, kv...)
	delete(m, "subscription")
	return m
}

func TestWriteOptionsHaveEffect(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range writeEffects {
		seen[e.name] = true
		s, err := WriteFromMap(legalWrite(e.with, e.name, e.sample))
		if err != nil {
			t.Errorf("%s=%s: %v", e.name, e.sample, err)
			continue
		}
		c, err := newWriteConfig(s.Connection, s.Options...)
		if err != nil {
			t.Errorf("%s=%s: %v", e.name, e.sample, err)
			continue
		}
		if got := e.got(c, s.Connection); !reflect.DeepEqual(got, e.want) {
			t.Errorf("%s=%s gives %v, want %v", e.name, e.sample, got, e.want)
		}
	}
	for _, row := range writeTable.Rows() {
		if !seen[row.Name] {
			t.Errorf("option %s has no case", row.Name)
		}
	}
}

// notLiteral are documented defaults that are words about another setting.
var notLiteral = []string{
	"ADC", "measured", "no limit", "min(90s, ackDeadline)", "the subscription's", "batchCount, else 10000",
	"batchSize", "the --runner flag", "the publish time", "each message's own", "1000, or 50 with batching=exact", "",
}

func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	plain, err := newReadConfig(Connection{ProjectID: "my-project"}, "my-subscription")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range readTable.Rows() {
		if slices.Contains(notLiteral, row.Default) {
			continue
		}
		var more map[string]string
		if row.Name == "timestampSlack" {
			more = with("timestampAttribute", "ts")
		}
		s, err := ReadFromMap(legalRead(more, row.Name, row.Default))
		if err != nil {
			t.Errorf("%s: default %q: %v", row.Name, row.Default, err)
			continue
		}
		c, _ := newReadConfig(s.Connection, s.Subscription, s.Options...)
		c.Given, c.TimestampAttribute = nil, ""
		if !reflect.DeepEqual(c, plain) {
			t.Errorf("%s: default %q gives %+v, without it %+v", row.Name, row.Default, c, plain)
		}
	}
	plainWrite, err := newWriteConfig(Connection{ProjectID: "my-project"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range writeTable.Rows() {
		if slices.Contains(notLiteral, row.Default) {
			continue
		}
		var more map[string]string
		if row.Name == "batchDelay" {
			more = with("batching", "exact", "batchCount", "1000")
		}
		s, err := WriteFromMap(legalWrite(more, row.Name, row.Default))
		if err != nil {
			t.Errorf("%s: default %q: %v", row.Name, row.Default, err)
			continue
		}
		c, _ := newWriteConfig(s.Connection, s.Options...)
		c.Given, c.Batching = nil, BatchBundle
		if !reflect.DeepEqual(c, plainWrite) {
			t.Errorf("%s: default %q gives %+v, without it %+v", row.Name, row.Default, c, plainWrite)
		}
	}
}

// TestMistakes holds one line each: the map, and the lines of the error.
func TestMistakes(t *testing.T) {
	cases := []struct {
		name string
		m    map[string]string
		want []string
	}{
		{"nothing given", with(), []string{"subscription: is required (legal: an id, or projects/PROJECT/subscriptions/ID)"}},
		{"id without project", with("subscription", "sub"), []string{"projectId: is required, since subscription is not a full name"}},
		{"name of a topic as subscription", with("subscription", "projects/p/topics/t"), []string{"subscription=projects/p/topics/t: is not a full name (legal: an id, or projects/PROJECT/subscriptions/ID)"}},
		{"illegal id", legalRead(nil, "subscription", "a b"), []string{`subscription=a b: has an id with the illegal character ' ' (legal: an id, or projects/PROJECT/subscriptions/ID)`}},
		{"letter case", legalRead(nil, "batchsize", "10"), []string{"batchsize: is not an option, did you mean batchSize?"}},
		{"misspelt value", legalRead(nil, "ackMode", "aftercommit"), []string{"ackMode=aftercommit: is not a legal value, did you mean afterCommit? (legal: afterCommit, early)"}},
		{"limitTime alone", legalRead(nil, "limitTime", "2026-01-01T00:00:00Z"), []string{"limitTime: has no effect without trigger=availableNow"}},
		{"limit before seek", legalRead(nil, "trigger", "availableNow", "limitTime", "2026-01-01", "seek", "timestamp", "seekTime", "2026-01-02"), []string{"limitTime=2026-01-01T00:00:00Z: is not after seekTime: nothing would be read"}},
		{"once without receiveTime", legalRead(nil, "trigger", "once"), []string{"trigger=once: needs receiveTime: without it the job could end before its first message"}},
		{"continuous", legalRead(nil, "trigger", "Continuous"), []string{"trigger=continuous: is refused: Beam reads in bundles; leave it out to read for ever"}},
		{"receiveTime as long as the interval", legalRead(nil, "receiveTime", "60", "processingTime", "1m"), []string{"receiveTime=1m0s: leaves no time to write: it must be shorter than processingTime"}},
		{"seek to no time", legalRead(nil, "seek", "timestamp"), []string{"seek=timestamp: needs seekTime"}},
		{"seek to no snapshot", legalRead(nil, "seek", "snapshot"), []string{"seek=snapshot: needs seekSnapshot"}},
		{"time without seek", legalRead(nil, "seekTime", "2026-01-01"), []string{"seekTime: has no effect without seek=timestamp"}},
		{"snapshot without seek", legalRead(nil, "seekSnapshot", "snap", "seek", "beginning"), []string{"seekSnapshot: has no effect without seek=snapshot"}},
		{"only the cause of two", legalRead(nil, "seek", "timestamp", "seekTime", "soon"), []string{"seekTime=soon: is not an instant (legal: 2024-08-07T15:12:29Z, or with an offset: 2024-08-07T12:12:29-03:00)"}},
		{"short lease", legalRead(nil, "ackDeadline", "5s"), []string{"ackDeadline=5s: is out of range (legal: 10s to 10m)"}},
		{"no retry", legalRead(nil, "maxRetryTime", "0"), []string{"maxRetryTime=0s: is out of range (legal: 1ms or more)"}},
		{"early does not wait", legalRead(nil, "ackMode", "early", "commitTimeout", "5m"), []string{"commitTimeout: has no effect with ackMode=early, which does not wait for a commit"}},
		{"topic without use", legalRead(nil, "topic", "my-topic"), []string{"topic: has no effect without schemaMode=dynamic or mixed: only the topic's schema is used"}},
		{"batch over the bound", legalRead(nil, "batchCount", "100", "maxOutstandingMessages", "10"), []string{"batchCount=100: is more than maxOutstandingMessages: a batch would never be full"}},
		{"bytes over the bound", legalRead(nil, "batchSize", "2k", "maxOutstandingBytes", "1k"), []string{"batchSize=2048: is more than maxOutstandingBytes: a batch would never be full"}},
		{"zero is not a default", legalRead(nil, "batchCount", "0", "batchSize", "0"), []string{"batchSize=0: is out of range (legal: 1 or more)", "batchCount=0: is out of range (legal: 1 or more)"}},
		{"policy and function", legalRead(nil, "watermarkPolicy", "wallTime", "watermarkFunc", "mine"), []string{"watermarkFunc=mine: contradicts watermarkPolicy: one of them decides"}},
		{"function nobody knows", legalRead(nil, "watermarkFunc", "yours"), []string{"watermarkFunc=yours: names no function registered with RegisterWatermarkFunc (legal: mine)"}},
		{"lag without policy", legalRead(nil, "maxLag", "1m"), []string{"maxLag: has no effect without watermarkPolicy=publishTimeWithMaxLag"}},
		{"policy without lag", legalRead(nil, "watermarkPolicy", "publishTimeWithMaxLag"), []string{"watermarkPolicy=publishTimeWithMaxLag: needs maxLag"}},
		{"slack without attribute", legalRead(nil, "timestampSlack", "1m"), []string{"timestampSlack: needs timestampAttribute"}},
		{"idle clients", legalRead(nil, "clientsPerWorker", "2"), []string{"clientsPerWorker=2: is more than streams (1): a client would have nothing to do"}},
		{"credentials for the emulator", legalRead(nil, "emulatorHost", "h:1", "credentialsFile", "/k"), []string{"credentialsFile: has no effect with emulatorHost, which is spoken to without credentials"}},
		{"Spark's own", legalRead(nil, "checkpointLocation", "/c", "path", "/p", "databricksSecretScope", "s"), []string{
			"checkpointLocation: is refused: progress is kept by the runner and by the broker; leave it out",
			"databricksSecretScope: is refused: secret scopes are not read; give credentials as ${env:X} or ${file:/path}",
			"path: is refused: it belongs to Spark's file sink; give it to the transform that writes",
		}},
		{"direct runner", legalRead(nil, "runner", "direct"), []string{"runner=direct: is refused: the Go direct runner drops what a source wants to resume; use --runner=prism"}},
		{"an option of the sink", legalRead(nil, "batching", "exact"), []string{"batching: is an option of the sink, not of the source"}},
		{"negative and unit", legalRead(nil, "receiveTime", "-5s", "batchSize", "5t", "numWriters", "0"), []string{
			"batchSize=5t: has the unknown unit \"t\" (legal: bytes, or a number with k, m, g)",
			"numWriters=0: is neither a number of 1 or more nor auto (legal: 1 or more, or auto)",
			"receiveTime=-5s: is negative (legal: a number of seconds, or with ms, s, m, or auto)",
		}},
		{"reference out of place", legalRead(nil, "idAttribute", "${env:ID}"), []string{"idAttribute=${env:ID}: holds a reference, which only options for credentials and addresses take"}},
		{"empty", legalRead(nil, "idAttribute", " "), []string{"idAttribute: is empty"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadFromMap(c.m)
			if got := options.Lines(err); !slices.Equal(got, c.want) {
				t.Errorf("mistakes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWriteMistakes(t *testing.T) {
	cases := []struct {
		name string
		m    map[string]string
		want []string
	}{
		{"id without project", with("topic", "my-topic"), []string{"projectId: is required, since topic is not a full name"}},
		{"delay without exact", legalWrite(nil, "batchDelay", "1s"), []string{"batchDelay: has no effect without batching=exact: nothing waits"}},
		{"batch of one", legalWrite(nil, "batching", "streaming", "batchCount", "5"), []string{"batchCount: has no effect with batching=streaming: each message goes at once"}},
		{"too many", legalWrite(nil, "batchCount", "1001"), []string{"batchCount=1001: is out of range (legal: 1 to 1000)"}},
		{"too large", legalWrite(nil, "batchSize", "10m"), []string{"batchSize=10485760: is out of range (legal: 1 to 10000000)"}},
		{"failure without keys", legalWrite(nil, "orderingKeys", "no", "orderingFailure", "hold"), []string{"orderingKeys=no: is neither true nor false (legal: true, false)"}},
		{"failure of dropped keys", legalWrite(nil, "orderingKeys", "false", "orderingFailure", "hold"), []string{"orderingFailure: has no effect with orderingKeys=false"}},
		{"one attribute for two", legalWrite(nil, "idAttribute", "a", "timestampAttribute", "a"), []string{"idAttribute=a: is also the timestampAttribute"}},
		{"an option of the source", legalWrite(nil, "seek", "beginning"), []string{"seek: is an option of the source, not of the sink"}},
		{"many at once", legalWrite(nil, "maxAttempts", "0", "publishTimeout", "0", "compresion", "gzip"), []string{
			"compresion: is not an option, did you mean compression?",
			"publishTimeout=0s: is out of range (legal: 1ms or more)",
			"maxAttempts=0: is out of range (legal: 1 or more)",
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := WriteFromMap(c.m)
			if got := options.Lines(err); !slices.Equal(got, c.want) {
				t.Errorf("mistakes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestNotices(t *testing.T) {
	s, err := ReadFromMap(legalRead(nil, "gatherMode", "pull", "sparkRuntimePlatform", "other"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"gatherMode=pull is deprecated; write gatherMode=immediate",
		"sparkRuntimePlatform=OTHER has no effect: there is no Spark here",
	}
	if !slices.Equal(s.Notices, want) {
		t.Errorf("notices %q, want %q", s.Notices, want)
	}
	if _, err := ReadFromMap(legalRead(nil, "sparkRuntimePlatform", "EMR")); err == nil ||
		err.Error() != "sparkRuntimePlatform: is not a legal value (legal: OTHER)" {
		t.Errorf("another platform: %v", err)
	}
}

func TestAutomaticDeadlines(t *testing.T) {
	c := defaultReadConfig()
	for interval, want := range map[time.Duration]time.Duration{
		0: 180 * time.Second, time.Second: 60 * time.Second, 40 * time.Second: 120 * time.Second,
		10 * time.Minute: 600 * time.Second, 1 << 62: 600 * time.Second,
	} {
		if got := c.ackDeadline(interval); got != want {
			t.Errorf("commit interval %s: lease %s, want %s", interval, got, want)
		}
	}
	if got := c.retryTime(180 * time.Second); got != 90*time.Second {
		t.Errorf("retry time %s, want 90 s", got)
	}
}

// TestTypedFormsExist finds each name of the In Go column among the package's
// exported names.
func TestTypedFormsExist(t *testing.T) {
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // one package, no build tags
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{"Read": true}
	for name := range pkgs["pubsubio"].Files {
		for _, d := range pkgs["pubsubio"].Files[name].Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				exported[d.Name.Name] = exported[d.Name.Name] || d.Recv == nil
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						exported[s.Names[0].Name] = true
					case *ast.TypeSpec:
						exported[s.Name.Name] = true
					}
				}
			}
		}
	}
	word := regexp.MustCompile(`^\w+`)
	for _, row := range slices.Concat(readTable.Rows(), writeTable.Rows()) {
		if !exported[word.FindString(row.Typed)] {
			t.Errorf("%s: %q is not in the package", row.Name, row.Typed)
		}
		if row.Doc == "" || row.Sample == "" {
			t.Errorf("%s has no documentation or no sample", row.Name)
		}
	}
}
