package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/pubsubio"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const (
	topic = "projects/recover-project/topics/orders"
	sub   = "projects/recover-project/subscriptions/orders-recovery"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

func server(t *testing.T) (*pubsubfake.Server, string) {
	t.Helper()
	srv := pubsubfake.New()
	t.Cleanup(srv.Close)
	addr, err := srv.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.AddTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := srv.AddSubscription(sub, topic, func(s *pubsubpb.Subscription) { s.RetainAckedMessages = true }); err != nil {
		t.Fatal(err)
	}
	return srv, addr
}

func TestRecoveryWritesEachBatchToAFileAndEnds(t *testing.T) {
	srv, addr := server(t)
	limit := time.Now().Add(-time.Hour)
	for i := range 30 {
		at := limit.Add(time.Duration(i-25) * time.Minute) // five at or after the limit
		if _, err := srv.PublishAt(topic, at, &pubsubpb.PubsubMessage{Data: []byte("body " + strconv.Itoa(i)), OrderingKey: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), options{
		"emulatorHost": addr, "subscription": sub, "schemaMode": "slim", "batchCount": "10",
		"seek": "timestamp", "seekTime": limit.Add(-time.Hour).UTC().Format(time.RFC3339Nano),
		"limitTime": limit.UTC().Format(time.RFC3339Nano),
	}, dir, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	rows := map[string]int{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		n := readRows(t, f, rows)
		if n == 0 || n > 10 {
			t.Errorf("%d rows in %s", n, f)
		}
	}
	if len(rows) != 25 || len(files) < 3 {
		t.Errorf("%d messages in %d files", len(rows), len(files))
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
		t.Errorf("left over: %q", hidden)
	}
	if got := srv.Stats(sub); got.Acked != 25 || got.Unacked != 5 {
		t.Errorf("acked %d, left %d", got.Acked, got.Unacked)
	}
	if !strings.Contains(stdout.String(), "25 messages") {
		t.Error(stdout.String())
	}
}

func readRows(t *testing.T, path string, rows map[string]int) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var row map[string]any
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"body", "messageid", "publishtime", "orderingkey"} {
			if row[c] == nil || row[c] == "" {
				t.Errorf("column %s is missing in %s", c, s.Text())
			}
		}
		if rows[row["messageid"].(string)]++; rows[row["messageid"].(string)] > 1 {
			t.Errorf("%s came twice", row["messageid"])
		}
	}
	return n
}

func TestNothingThereMakesNoFile(t *testing.T) {
	_, addr := server(t)
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), options{"emulatorHost": addr, "subscription": sub}, dir, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("files: %v", files)
	}
}

func TestUnwritableDirectoryAcknowledgesNothing(t *testing.T) {
	srv, addr := server(t)
	if err := srv.Load(topic, 5, 10); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	f := &writeFn{Dir: gone}
	if err := f.ProcessElement(pubsubio.Message{MessageID: "1"}); err == nil {
		t.Error("a file in a directory that is not there")
	}
	var stdout, stderr bytes.Buffer
	// A file where the directory should be.
	if err := os.WriteFile(gone, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(t.Context(), options{"emulatorHost": addr, "subscription": sub}, gone, &stdout, &stderr); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if got := srv.Stats(sub); got.Acked != 0 || got.Unacked != 5 {
		t.Errorf("acked %d, left %d", got.Acked, got.Unacked)
	}
}

func TestEveryMistakeIsALine(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), options{"subscription": "orders", "trigger": "once", "batchsize": "1"}, "", &stdout, &stderr)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if code != 2 || len(lines) < 4 {
		t.Errorf("exit code %d, lines:\n%s", code, stderr.String())
	}
	for _, want := range []string{"trigger=once", "--out", "did you mean batchSize?", "projectId"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in:\n%s", want, stderr.String())
		}
	}
}
