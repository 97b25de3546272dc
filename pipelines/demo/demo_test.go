package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

func TestDemoVerifiesWhatItSent(t *testing.T) {
	var out bytes.Buffer
	ok, err := (&demo{n: 1000, size: 100, out: &out}).run(t.Context())
	if err != nil || !ok || !strings.HasSuffix(out.String(), "demo: sent=1000 received=1000 missing=0 duplicates=0\n") {
		t.Errorf("%v, %v:\n%s", ok, err, out.String())
	}
}

func TestDemoFindsWhatIsMissing(t *testing.T) {
	var out bytes.Buffer
	ok, err := (&demo{n: 1000, size: 100, out: &out, fault: "drop3"}).run(t.Context())
	if err != nil || ok || !strings.HasSuffix(out.String(), "demo: sent=1000 received=997 missing=3 duplicates=0\n") {
		t.Errorf("%v, %v:\n%s", ok, err, out.String())
	}
}

func TestBookFindsCopiesAndChanges(t *testing.T) {
	b := newBook(3, 50)
	enter := func(m *pubsubpb.PubsubMessage) { b.receive(&pubsubpb.ReceivedMessage{Message: m}) }
	changed := message(1, 50)
	changed.Data[20]++
	enter(message(0, 50))
	enter(message(0, 50))
	enter(changed)
	enter(&pubsubpb.PubsubMessage{Data: []byte("x")})
	var out bytes.Buffer
	ok := b.report(&out, 3)
	if want := "demo: altered=1 unknown=1\ndemo: sent=3 received=2 missing=1 duplicates=1\n"; ok || out.String() != want {
		t.Errorf("%v, %q, want %q", ok, out.String(), want)
	}
	b.wait(t.Context(), 3, 50*time.Millisecond) // returns when nothing comes
}

func TestFaults(t *testing.T) {
	for _, bad := range []string{"drop", "drop0", "drop11", "dropx", "lose3"} {
		if _, err := faults(bad, 10); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if lost, err := faults("drop10", 10); err != nil || len(lost) != 10 {
		t.Errorf("%v, %v", lost, err)
	}
}
