package bridge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beam-brokers/beam-brokers/pubsubio"
)

// main runs the command and returns its exit code and the lines of stderr.
func command(args ...string) (code int, stdout string, lines []string) {
	var out, err bytes.Buffer
	code = Main(args, &out, &err)
	if text := strings.TrimSpace(err.String()); text != "" {
		lines = strings.Split(text, "\n")
	}
	return code, out.String(), lines
}

func TestF23EveryMistakeOfBothSidesAtOnce(t *testing.T) {
	code, _, lines := command("run", "--from", "pubsub", "--from-opt", "batchsize=10", "--from-opt", "subscription=orders",
		"--from-opt", "numWriters=-1", "--from-opt", "receiveTime=soon", "--from-opt", "seek=none", "--from-opt", "seekTime=2024-01-01",
		"--to", "pubsub", "--to-opt", "topc=t", "--to-opt", "batchDelay=1x", "--dead-letter", "pubsub", "--dead-letter-opt", "projectId=my-project",
		"--on-failure", "drop", "--interval", "5", "--htp", ":80", "--parallelism", "many")
	want := []string{
		"bridge: --interval: is not a duration",
		"bridge: --htp: is not a flag, did you mean --http?",
		"bridge: --parallelism: ",
		"bridge: --on-failure=drop: contradicts --dead-letter",
		"bridge: from: batchsize: is not an option, did you mean batchSize?",
		"bridge: from: numWriters=-1: ",
		"bridge: from: receiveTime=soon: ",
		"bridge: from: seekTime",
		"bridge: from: projectId: is required",
		"bridge: to: batchDelay=1x: ",
		"bridge: to: topc: is not an option, did you mean topic?",
		"bridge: dead-letter: topic: is required",
	}
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, w) }) {
			t.Errorf("no line %q", w)
		}
	}
	if code != 2 || len(lines) != len(want) {
		t.Errorf("exit code %d, %d lines, want %d:\n%s", code, len(lines), len(want), strings.Join(lines, "\n"))
	}
}

func TestWrongCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"runn"}, "did you mean run?"},
		{[]string{"options", "pubsb"}, "did you mean pubsub?"},
		{[]string{"options"}, "needs the name of a system"},
		{[]string{"run", "--from", "pubsub"}, "--to: is required"},
		{[]string{"run", "--from", "kafkaa", "--to", "pubsub"}, "--from=kafkaa: is not a legal value"},
		{[]string{"run", "--from-opt", "a=1", "--from-opt", "a=2"}, "--from-opt: a: comes twice"},
		{[]string{"run", "--runner", "direct"}, "use --runner=prism"},
		{[]string{"run", "-f", "no such file"}, "-f: "},
		{[]string{"run", "stray"}, "belongs to no flag"},
		{[]string{"run", "--http", "80"}, "--http=80: is not an address"},
		{[]string{"run", "--dead-letter-opt", "a=b"}, "--dead-letter: is required"},
	} {
		code, _, lines := command(c.args...)
		if code != 2 || !strings.Contains(strings.Join(lines, "\n"), c.want) {
			t.Errorf("%q: exit code %d, %q", c.args, code, lines)
		}
	}
	t.Cleanup(func() { (&Config{Runner: map[string]string{"runner": "prism"}}).setBeamFlags() })
}

func TestOptionsAndHelp(t *testing.T) {
	for _, args := range [][]string{{"options", "pubsub"}, {"help"}, {"run", "--help"}} {
		if code, out, _ := command(args...); code != 0 || len(out) < 500 {
			t.Errorf("%q: %d %q", args, code, out)
		}
	}
}

const secret = "S3cr3t-Zq9"

func TestF24SecretsAreMaskedEverywhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(file, []byte("from:\n  system: pubsub\n  options:\n    jaas: password="+secret+"\n  pasword: "+secret+"\nhttp: ["+secret+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("from: &a *"+secret+"\n\tx: '"+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--from", "pubsub", "--from-opt", "password=" + secret, "--from-opt", "subscription=projects/my-project/subscriptions/orders", "--to", "pubsub", "--to-opt", "token=" + secret},
		{"--from", "pubsub", "--from-opt", "endpoint=https://user:" + secret + "@host:1", "--to", secret},
		{"--from", "pubsub", "--from-opt", secret},
		{"--from", "nothing", "--from-opt", "x=" + secret},
		{"-f", file},
		{"-f", broken},
	} {
		for _, more := range [][]string{nil, {"--print-config"}} {
			code, out, lines := command(append(append([]string{"run"}, args...), more...)...)
			text := out + strings.Join(lines, "\n")
			if code != 2 {
				t.Errorf("%q: exit code %d", args, code)
			}
			if args[len(args)-1] != secret && strings.Contains(text, secret) || args[len(args)-1] == secret && args[len(args)-2] == "--from-opt" && strings.Contains(text, secret) {
				t.Errorf("%q shows the secret:\n%s", args, text)
			}
		}
	}
	_, out, _ := command("run", "--from", "pubsub", "--from-opt", "password="+secret, "--print-config")
	if !strings.Contains(out, "password: '***'") {
		t.Errorf("the name is not shown: %s", out)
	}
	if got := mask(&pubsubSystem, "credentialsFile", "/etc/key.json"); got != "/etc/key.json" {
		t.Errorf("a path is masked: %s", got)
	}
	for in, want := range map[string]string{
		"amqp://u:p@h:1,amqp://v@h": "amqp://***@h:1,amqp://***@h", "${env:X}": "${env:X}", "plain": "plain",
	} {
		if got := mask(&pubsubSystem, "endpoint", in); got != want {
			t.Errorf("%s is shown as %s", in, got)
		}
	}
}

func TestFileAndFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	text := `
from:
  system: pubsub
  options: {subscription: orders, projectId: my-project, batchCount: 100, gatherMode: batch}
to:
  system: pubsub
  options: {topic: copy, projectId: my-project, orderingKeys: true}
onFailure: drop
interval: 20s
runner: {runner: prism, job_name: mine}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parse([]string{"-f", file, "--from-opt", "batchCount=7", "--on-failure=retry", "--http", ":0"})
	if err != nil {
		t.Fatal(err)
	}
	if c.From.Options["batchCount"] != "7" || c.From.Options["subscription"] != "orders" || c.To.Options["orderingKeys"] != "true" ||
		c.OnFailure != "retry" || c.HTTP != ":0" || c.Interval.Seconds() != 20 || c.Runner["job_name"] != "mine" {
		t.Errorf("configuration %+v", c.Config)
	}
	if _, err := c.validate(); err != nil {
		t.Error(err)
	}
	again := filepath.Join(t.TempDir(), "shown.yaml")
	if err := os.WriteFile(again, []byte(c.Shown()), 0o600); err != nil {
		t.Fatal(err)
	}
	c2, err := parse([]string{"-f", again})
	if err != nil || c2.Shown() != c.Shown() {
		t.Errorf("what is shown reads back as\n%v\n%s", err, c2.Shown())
	}
}

func TestFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "is empty",
		"from: x":                     "is not a mapping",
		"frm: {}":                     "did you mean from?",
		"from: {systm: pubsub}":       "did you mean system?",
		"interval: 5":                 "is not a duration",
		"runner: {paralelism: 2}":     "did you mean parallelism?",
		"to: {options: {a: [1]}}":     "is not a single value",
		"http: :1\nhttp: :2":          "comes twice",
		"a: b: c":                     "is not YAML",
		"deadLetter: {options: {}, }": "--from: is required",
	} {
		file := filepath.Join(t.TempDir(), "bridge.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, lines := command("run", "-f", file)
		if code != 2 || !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("%q: exit code %d, %q", text, code, lines)
		}
	}
}

func TestBoundaries(t *testing.T) {
	const addr = "127.0.0.1:1" // nothing is connected to
	for _, c := range []struct {
		name     string
		to       map[string]string
		dead     bool
		failure  string
		boundary string
	}{
		{"bundle batching is one stage", nil, false, "", ""},
		{"so it is with dead letters", nil, true, "", ""},
		{"and with retry", nil, false, OnFailureRetry, ""},
		{"and with drop", map[string]string{"batching": "streaming"}, false, OnFailureDrop, ""},
		{"exact batching is not", map[string]string{"batching": "exact"}, false, "", "state"},
		{"whatever fails", map[string]string{"batching": "exact"}, true, "", "batching=exact"},
	} {
		config := pubsubConfig(addr, nil, c.to)
		config.OnFailure = c.failure
		if c.dead {
			config.DeadLetter = Endpoint{"pubsub", map[string]string{"emulatorHost": addr, "topic": deadTopic}}
		}
		j, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(j.Warnings, "\n")
		if (c.boundary == "") != (text == "") || !strings.Contains(text, c.boundary) {
			t.Errorf("%s: warnings %q", c.name, text)
		}
	}
	config := pubsubConfig(addr, map[string]string{"numWriters": "4"}, nil)
	if j, err := New(config); err != nil || !strings.Contains(strings.Join(j.Warnings, "\n"), "a shuffle") {
		t.Errorf("numWriters: %v, %v", j, err)
	}
}

func TestPubSubMapping(t *testing.T) {
	text := rapid.StringMatching(`[a-zé ]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		m := pubsubio.Message{
			Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"), MessageID: text.Draw(t, "id"), OrderingKey: text.Draw(t, "key"),
			Attributes: rapid.MapOfN(text, text, 1, 4).Draw(t, "attributes"),
		}
		got := recordToPubsub(pubsubToRecord(m))
		if fmt.Sprint(got) != fmt.Sprint(m) {
			t.Fatalf("%v became %v", m, got)
		}
	})
	m := recordToPubsub(Record{Headers: []Header{header("a", "1"), header("a", "2"), {Name: "null", Kind: KindNull}, header("a", "3")}})
	if fmt.Sprint(m.Attributes) != "map[a:1 a.2:2 a.3:3]" {
		t.Errorf("repeated headers became %v", m.Attributes)
	}
}

func TestLines(t *testing.T) {
	s := Status{State: stateRunning, Read: 1234567, Written: 5, Failed: 3, Dropped: 2, Unsettled: 1000, Backlog: -1, ReadRate: 1999.6, lag: 1500e6, Seconds: 61}
	if got, want := s.line(), "read 2,000/s  written 0/s  failed 3  unsettled 1,000  watermark lag 1.5s  backlog -"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := s.totals(), "read 1,234,567  written 5  failed 3  dropped 2  acknowledged 0  given back 0  in 61s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var b bytes.Buffer
	terminal := &screen{out: &b, terminal: true}
	terminal.progress("one")
	terminal.progress("two")
	fmt.Fprintln(terminal, "log")
	if got, want := b.String(), clearLine+"one"+clearLine+"two"+clearLine+"log\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
