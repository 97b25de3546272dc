package options

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beam-brokers/beam-brokers/secret"
)

// settings is what the table of the tests fills.
type settings struct {
	wait   time.Duration
	least  time.Duration
	size   int64
	from   time.Time
	retry  int
	acks   string
	on     bool
	topics []string
	spec   string
	any    string
	url    string
	empty  string
	got    string

	address secret.Ref
}

var table = Table[settings]{
	Options: []Option[settings]{
		Duration(Info{Name: "receiveTime", Aliases: []Alias{{Name: "gatherTime", Notice: "is deprecated; write receiveTime"}}, Auto: true, Default: "auto", Doc: "Waits."},
			Units{Bare: time.Second}, func(c *settings, d time.Duration) { c.wait = d }),
		Duration(Info{Name: "maxTriggerDelay"}, Units{Hours: true}, func(c *settings, d time.Duration) { c.least = d }),
		Size(Info{Name: "batchSize"}, func(c *settings, n int64) { c.size = n }),
		Instant(Info{Name: "seekTime"}, func(c *settings, t time.Time) { c.from = t }),
		IntIn(Info{Name: "connectRetries", Source: "paper"}, -1, 100, func(c *settings, n int) { c.retry = n }),
		Enum(Info{Name: "acks"}, Choice{Values: []string{"all", "0", "1"}, Aliases: []Alias{{Name: "-1", Means: "all", Notice: "is written all"}}}, func(c *settings, v string) { c.acks = v }),
		Enum(Info{Name: "strategy"}, Choice{Values: []string{"ERROR", "LATEST"}, AnyCase: true}, func(c *settings, v string) { c.got = v }),
		Bool(Info{Name: "failOnDataLoss"}, func(c *settings, v bool) { c.on = v }),
		List(Info{Name: "subscribe"}, func(c *settings, v []string) { c.topics = v }),
		JSON(Info{Name: "assign"}, func(c *settings, v json.RawMessage) { c.spec = string(v) }),
		Secret(Info{Name: "password"}, func(c *settings, v secret.Ref) { c.any = string(v) }),
		SecretURL(Info{Name: "address"}, func(c *settings, v secret.Ref) { c.address = v }),
		Text(Info{Name: "url", Refs: true}, func(c *settings, v string) { c.url = v }),
		Text(Info{Name: "endpoint.algorithm", Empty: true}, func(c *settings, v string) { c.empty = "given" + v }),
		Func(Info{Name: "token", Secret: true}, func(s string) (string, error) { return "", errors.New("is too short") }, func(*settings, string) {}),
		Text(Info{Name: "host", Required: true, Legal: "HOST:PORT"}, func(*settings, string) {}),
	},
	NoEffect:  append([]Closed{{Name: "kafka.session.timeout.ms", Reason: "has no effect: there is no group"}}, SparkNoEffect...),
	Refused:   SparkRefused,
	Elsewhere: map[string]string{"topic": "is an option of the sink"},
}

func TestEachTypeReachesTheSettings(t *testing.T) {
	var c settings
	r := table.Parse(map[string]string{
		"host": "h:1", "gatherTime": "20", "maxTriggerDelay": "15m", "batchSize": "2k", "seekTime": "2024-08-07",
		"connectRetries": "-1", "acks": "-1", "strategy": "latest", "failOnDataLoss": "False", "subscribe": "a, b",
		"assign": `{"t":[0]}`, "password": "${env:P}", "url": "amqp://${env:U}@h", "endpoint.algorithm": "",
		"kafka.session.timeout.ms": "1", "sparkRuntimePlatform": "OTHER",
	}, &c)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	want := settings{
		wait: 20 * time.Second, least: 15 * time.Minute, size: 2048, from: time.Date(2024, 8, 7, 0, 0, 0, 0, time.UTC),
		retry: -1, acks: "all", got: "LATEST", topics: []string{"a", "b"}, spec: `{"t":[0]}`, any: "${env:P}",
		url: "amqp://${env:U}@h", empty: "given",
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("settings %+v, want %+v", c, want)
	}
	notices := []string{
		"acks=-1 is written all",
		"gatherTime is deprecated; write receiveTime",
		"kafka.session.timeout.ms has no effect: there is no group",
		"sparkRuntimePlatform=OTHER has no effect: there is no Spark here",
	}
	if !slices.Equal(r.Notices, notices) {
		t.Errorf("notices %q, want %q", r.Notices, notices)
	}
	if len(r.Set) != 14 || !slices.Contains(r.Set, "receiveTime") {
		t.Errorf("set: %q", r.Set)
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	var c settings
	r := table.Parse(map[string]string{
		"receiveTime": "soon", "gatherTime": "5", "maxTriggerDelay": "15", "batchSize": "1x", "seekTime": "later",
		"connectRetries": "-2", "acks": "al", "failOnDataLoss": "maybe", "subscribe": "a,,b", "assign": "{",
		"password": " ", "token": "S3cr3t-Zq9", "topic": "t", "batchsize": "S3cr3t-Zq9", "zzz": "1", "trigger": "CONTINUOUS",
		"address": "${S3cr3t}", "strategy": "newest ${env:X}", "databricks.scope": "s",
	}, &c)
	want := []string{
		"acks=al: is not a legal value, did you mean all? (legal: all, 0, 1)",
		"address: holds ${S3cr3t}, which is no reference; write ${env:S3cr3t} (legal: a URL; its password may be ${env:X} or ${file:/path})",
		"assign={: is not JSON (legal: JSON)",
		`batchSize=1x: has the unknown unit "x" (legal: bytes, or a number with k, m, g)`,
		"batchsize: is not an option, did you mean batchSize?",
		"connectRetries=-2: is out of range (legal: -1 to 100)",
		"databricks.scope: is refused: secret scopes are not read; give credentials as ${env:X} or ${file:/path}",
		"failOnDataLoss=maybe: is neither true nor false (legal: true, false)",
		"maxTriggerDelay=15: needs a unit (legal: a number with ms, s, m, h)",
		"password: is empty (legal: ${env:X}, ${file:/path})",
		"receiveTime: is the same option as gatherTime; give one",
		"seekTime=later: is not an instant (legal: " + InstantForm + ")",
		"strategy=newest ${env:X}: holds a reference, which only options for credentials and addresses take",
		"subscribe=a,,b: has an empty word (legal: words with commas between them)",
		"token: is too short",
		"topic: is an option of the sink",
		"trigger=continuous: is refused: Beam reads in bundles; leave it out to read for ever",
		"zzz: is not an option",
		"host: is required (legal: HOST:PORT)",
	}
	if got := Lines(r.Err); !slices.Equal(got, want) {
		t.Errorf("mistakes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := len(Errors(r.Err)); got != len(want) {
		t.Errorf("%d typed errors, want %d", got, len(want))
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", r.Err, r.Notices, Errors(r.Err)), "S3cr3t-Zq9") {
		t.Error("a secret is shown")
	}
}

func TestLiteralsBecomeHandles(t *testing.T) {
	var c settings
	r := table.Parse(map[string]string{"host": "h", "password": "S3cr3t-Zq9", "address": "amqp://u:S3cr3t-Zq9@h"}, &c)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if strings.Contains(c.any+string(c.address), "S3cr3t") {
		t.Errorf("the settings hold %q and %q", c.any, string(c.address))
	}
	v, err := c.address.Resolve(t.Context())
	if err != nil || v.Reveal() != "amqp://u:S3cr3t-Zq9@h" {
		t.Errorf("the address resolves to %q, %v", v.Reveal(), err)
	}
}

func TestAutoIsLikeLeavingOut(t *testing.T) {
	c := settings{wait: 7}
	r := table.Parse(map[string]string{"host": "h", "receiveTime": "AUTO"}, &c)
	if r.Err != nil || c.wait != 7 || slices.Contains(r.Set, "receiveTime") {
		t.Errorf("wait %d, set %q, %v", c.wait, r.Set, r.Err)
	}
}

func TestAndLeavesOutWhatFollows(t *testing.T) {
	r := table.Parse(map[string]string{"host": "h", "seekTime": "later"}, &settings{})
	follows := &Error{Key: "seek", Value: "timestamp", Problem: "needs seekTime", Also: []string{"seekTime"}}
	other := &Error{Key: "acks", Problem: "contradicts idempotence"}
	got := Errors(r.And(errors.Join(follows, other)))
	if len(got) != 2 || got[0].Key != "seekTime" || got[1] != other {
		t.Errorf("left: %v", got)
	}
	if r := (&Result{}).And(nil); r != nil {
		t.Errorf("nothing wrong gives %v", r)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"failOnDataLoss", "kafka.bootstrap.servers", "batchSize", "batchCount", "minPartitions", "acks"}
	for word, want := range map[string]string{
		"failOnDataloss": "failOnDataLoss", "kafka.bootstrap.server": "kafka.bootstrap.servers", "bootstrap.servers": "kafka.bootstrap.servers",
		"batchsize": "batchSize", "batch_count": "batchCount", "bathcSize": "batchSize", "partitions": "minPartitions",
		"ack": "acks", "": "", "zzzzzz": "", strings.Repeat("x", 10_000): "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %.40q is %q, want %q", word, got, want)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) {
			t.Fatalf("distance of %q and %q is %d, back %d", a, b, d, distance(b, a))
		}
	})
}

func TestDocuments(t *testing.T) {
	d := Doc{Name: "x", Package: "xio", Sections: []Section{{Title: "Source", Rows: table.Rows()[:1], Refused: SparkRefused[:1]}}}
	want := "## xio\n\n### Source\n\n" +
		"| Option | Default | Legal values | What it does | In Go | From |\n|---|---|---|---|---|---|\n" +
		"| `receiveTime` | `auto` | a number of seconds, or with ms, s, m, or auto | Waits. Also gatherTime. |  | ours |\n" +
		"| `sparkRuntimePlatform=DATABRICKS` | | | Is refused: there is no Databricks runtime here; give credentials as ${env:X} or ${file:/path}. | | |\n"
	if got := d.Markdown(); got != want {
		t.Errorf("Markdown:\n%s\nwant:\n%s", got, want)
	}
	if text := d.Text(); !strings.Contains(text, "  receiveTime  [auto]\n      Waits. Also gatherTime.\n      Legal: a number of seconds") {
		t.Errorf("text:\n%s", text)
	}
}
