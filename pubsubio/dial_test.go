package pubsubio

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func TestEmulatorHostWinsOverTheEnvironment(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
	srv := pubsubfake.New()
	defer srv.Close()
	addr, err := srv.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts, err := Connection{EmulatorHost: addr}.clientOptions()
	if err != nil {
		t.Fatal(err)
	}
	c, err := pubsub.NewTopicAdminClient(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CreateTopic(t.Context(), &pubsubpb.Topic{Name: testTopic}); err != nil {
		t.Errorf("creating a topic: %v", err)
	}
	if os.Getenv("PUBSUB_EMULATOR_HOST") != "127.0.0.1:1" {
		t.Error("the variable was changed")
	}
}

func TestCredentialsFileNamesItsKind(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"service account": {`{"type":"service_account"}`, ""},
		"authorized user": {`{"type":"authorized_user"}`, ""},
		"external":        {`{"type":"external_account"}`, ""},
		"impersonated":    {`{"type":"impersonated_service_account"}`, ""},
		"another kind":    {`{"type":"gdch"}`, "gdch"},
		"no kind":         {`{}`, "none of"},
		"not JSON":        {"S3cr3t-Zq9", "not a JSON file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.json")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Connection{CredentialsFile: path}.clientOptions()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("clientOptions = %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "S3cr3t") {
				t.Errorf("the error shows the file's content: %v", err)
			}
		})
	}
	if _, err := (Connection{CredentialsFile: "/nowhere/key.json"}).clientOptions(); err == nil || !strings.Contains(err.Error(), "credentialsFile") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestCredentialsVersionFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, w := Connection{CredentialsFile: path}, &credentialsWatch{}
		write("one")
		first := w.current(c)
		write("two")
		if w.current(c) != first {
			t.Error("the file was read again at once")
		}
		time.Sleep(credentialsRefresh)
		second := w.current(c)
		if second == first || second == "" {
			t.Errorf("version %q after a change, before %q", second, first)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(credentialsRefresh)
		if w.current(c) != second {
			t.Error("a file that is gone changed the version")
		}
	})
}

// What a DoFn is made with must arrive on the worker.
func TestWriteDoFnsTravelAsJSON(t *testing.T) {
	c, err := newWriteConfig(Connection{ProjectID: testProject}, Topic("orders"), BatchExact, MaxWorkers(3), PublishLatencyMetrics(true))
	if err != nil {
		t.Fatal(err)
	}
	want := splitFn{Conn: Connection{ProjectID: testProject}, Config: c, Nonce: "n", Route: route{true, 3, true}}
	b, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got splitFn
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&got)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(b) || got.Config.Topic != testTopic || got.Config.BatchCount != 50 || got.Route != want.Route {
		t.Errorf("sent    %s\narrived %s", b, again)
	}
}
