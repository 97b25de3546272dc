package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandPrintsItsAddressesAndServesItsControlSide(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-create", "orders/bridge", "-create", "orders/other", "-create", "out-topic", "-load", "orders:1500:100"}, w)
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		t.Fatal(<-done)
	}
	var pubsubAddr, httpAddr string
	if _, err := fmt.Sscanf(lines.Text(), "pubsub=%s http=%s", &pubsubAddr, &httpAddr); err != nil {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	const topic = "projects/fake-project/topics/orders"
	get(t, http.MethodPost, "http://"+httpAddr+"/load?topic="+topic+"&n=10&size=5", "")
	if body := get(t, http.MethodGet, "http://"+httpAddr+"/published?topic="+topic, ""); strings.TrimSpace(body) != `{"messages":1510}` {
		t.Fatal(body)
	}
	get(t, http.MethodPost, "http://"+httpAddr+"/subscription", `{"name":"projects/fake-project/subscriptions/third","topic":"`+topic+`","ackDeadlineSeconds":60}`)
	get(t, http.MethodPost, "http://"+httpAddr+"/fault", `{"method":"Publish","code":"UNAVAILABLE","times":3}`)
	get(t, http.MethodDelete, "http://"+httpAddr+"/fault", "")
	check := func(text string) {
		t.Helper()
		var all pubsubfake.AllStats
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		if n := all.Subscriptions["projects/fake-project/subscriptions/bridge"].Unacked; n != 1510 || len(all.Subscriptions) != 3 || len(all.Topics) != 2 {
			t.Fatalf("%+v", all)
		}
	}
	check(get(t, http.MethodGet, "http://"+httpAddr+"/stats", ""))
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	check(lines.Text())
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func get(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s %v", method, url, resp.StatusCode, b, err)
	}
	return string(b)
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"extra"},
		{"-load", "orders:1"},
		{"-load", "orders:x:1"},
		{"-load", "orders:1:x"},
		{"-load", "orders:1:1"},
		{"-create", "a#b"},
		{"-create", "orders/bridge", "-ack-deadline", "5s"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
