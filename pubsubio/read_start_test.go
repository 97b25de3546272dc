package pubsubio

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// elsewhere makes the rig's connection dial with d, and returns its address.
func (r *readRig) elsewhere(d func(context.Context) (net.Conn, error)) string {
	r.Helper()
	host, remove := inmemory.Register(func(o ...grpc.DialOption) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+"elsewhere", append([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d(ctx) }),
		}, o...)...)
	})
	r.Cleanup(remove)
	r.conn.EmulatorHost = host
	return host
}

func TestF27StartAgainstNothing(t *testing.T) {
	mute := func(t *testing.T) func(context.Context) (net.Conn, error) {
		l := bufconn.Listen(1 << 16)
		t.Cleanup(func() { _ = l.Close() })
		return l.DialContext
	}
	for name, tc := range map[string]struct {
		dial  func(*testing.T) func(context.Context) (net.Conn, error)
		fault *pubsubfake.Fault
		opts  []ReadOption
		want  []string // beside the address, or the subscription
		least time.Duration
	}{
		"port closed": {dial: func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) { return nil, errors.New("connect: connection refused") }
		}, want: []string{"connection refused"}, least: 5 * time.Second},
		"host unknown": {dial: func(*testing.T) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "nowhere"}
			}
		}, want: []string{"no such host"}, least: 5 * time.Second},
		"port open and mute": {dial: mute, want: []string{"8s"}, least: 5 * time.Second},
		"subscription absent": {
			fault: &pubsubfake.Fault{Method: "GetSubscription", Code: codes.NotFound, Text: "Resource not found (resource=orders-sub)."},
			want:  []string{"NotFound", testSub},
		},
		"topic may not be looked at": {
			fault: &pubsubfake.Fault{Method: "GetTopic", Code: codes.PermissionDenied}, opts: []ReadOption{SchemaDynamic},
			want: []string{"pubsub.topics.get", testTopic},
		},
		"subscription may not be looked at for its topic": {
			fault: &pubsubfake.Fault{Method: "GetSubscription", Code: codes.PermissionDenied}, opts: []ReadOption{SchemaDynamic},
			want: []string{"pubsub.subscriptions.get", "option topic"},
		},
		"seek not allowed": {
			fault: &pubsubfake.Fault{Method: "Seek", Code: codes.PermissionDenied}, opts: []ReadOption{SeekBeginning},
			want: []string{"pubsub.subscriptions.consume", "beginning"},
		},
		"snapshot absent": {opts: []ReadOption{SeekToSnapshot, SeekSnapshot("recovery")}, want: []string{"NotFound", "snapshots/recovery"}},
	} {
		t.Run(name, func(t *testing.T) {
			readBubble(t, nil, func(t *testing.T, r *readRig) {
				want := tc.want
				if tc.dial != nil {
					want = append(want, r.elsewhere(tc.dial(t)))
				}
				if tc.fault != nil {
					r.srv.Inject(*tc.fault)
				}
				r.build(tc.opts...)
				began := time.Now()
				err := r.prepare()
				took := time.Since(began)
				if err == nil || took >= 10*time.Second || took < tc.least {
					t.Fatalf("after %v: %v", took, err)
				}
				for _, w := range want {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("error says nothing of %q: %v", w, err)
					}
				}
			})
		})
	}
}

// A service that comes up late is waited for.
func TestStartWaitsForABrokerThatComesUp(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		f := r.srv.Inject(pubsubfake.Fault{Method: "GetSubscription", Code: codes.Unavailable})
		time.AfterFunc(4*time.Second, f.Remove)
		r.publish(100)
		r.source()
		r.checkAll(r.read(100, 10*time.Second), 100)
	})
}

// quietGoroutines counts the process's goroutines once calls under way are over.
func quietGoroutines() int {
	time.Sleep(2 * time.Second) // of the bubble
	synctest.Wait()
	return runtime.NumGoroutine()
}

func TestF04OneConnectionForManyBundles(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.source(Streams(4), ClientsPerWorker(4), BatchCount(5), MaxOutstandingMessages(100))
		r.publish(2500)
		var first, got int
		for n := 1; n <= 500; n++ {
			b := r.call().commit()
			got += len(b.got)
			if n == 20 {
				first = quietGoroutines()
			}
		}
		if got < 1000 {
			t.Fatalf("%d messages in 500 bundles", got)
		}
		if now := quietGoroutines(); now > first+5 {
			t.Errorf("%d goroutines after 20 bundles, %d after 500", first, now)
		}
		if c := r.srv.Connections(); c.Peak > 4 || c.Total > 4 {
			t.Errorf("%+v, want at most 4", c)
		}
		if n := r.srv.Stats(testSub).StreamsOpened; n != 4 {
			t.Errorf("%d streams opened", n)
		}
	})
}

func TestF04CancelledStartsLeaveNothing(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		var dials atomic.Int32
		r.elsewhere(func(ctx context.Context) (net.Conn, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r.build()
		start := func() {
			ctx, cancel := context.WithTimeout(r.bundleContext("prepare"), time.Second)
			defer cancel()
			if err := (&prepareFn{Conn: r.conn, Config: r.fn.Config}).ProcessElement(ctx, nil, func([]byte) {}); err == nil {
				t.Error("a start against nothing succeeded")
			}
		}
		start()
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 50 {
			start()
		}
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before+5 || subscribers.Len() > 1 {
			t.Errorf("%d goroutines after the first start, %d after 51; %d clients", before, now, subscribers.Len())
		}
		if n := dials.Load(); n > 20 {
			t.Errorf("%d dials in 51 s", n)
		}
		time.Sleep(2 * time.Second)
		r.mu.Lock()
		lines := len(r.log)
		r.mu.Unlock()
		time.Sleep(time.Minute)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.log) != lines {
			t.Errorf("logged after the end: %v", r.log[lines:])
		}
	})
}

// Clients are let go of when their readers are gone.
func TestConnectionsCloseWhenNobodyReads(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(10)
		r.source()
		r.read(10, 5*time.Second)
		time.Sleep(15 * time.Second)
		if s := r.stats(); s.StreamsOpen != 0 {
			t.Errorf("%d streams open 15s after the last call", s.StreamsOpen)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if c := r.srv.Connections(); c.Open != 0 || len(readers.All()) != 0 {
			t.Errorf("%+v, %d readers, minutes after the last call", c, len(readers.All()))
		}
	})
}

func TestConstructionTouchesNothing(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		p, s := beam.NewPipelineWithRoot()
		res, err := TryRead(s, r.conn, "orders-sub", SeekBeginning, SchemaMixed, TriggerAvailableNow)
		if err != nil || !res.Messages.IsValid() || !res.Failed.IsValid() {
			t.Fatal(err)
		}
		if _, _, err := p.Build(); err != nil {
			t.Fatal(err)
		}
		if _, err := TryRead(s, r.conn, "", SeekToTime, NumWriters(0)); err == nil || strings.Count(err.Error(), "\n") < 2 {
			t.Errorf("mistakes: %v", err)
		}
		if c := r.srv.Connections(); c.Total != 0 || len(r.srv.RPCs()) != 0 {
			t.Errorf("%+v, calls %v", c, r.srv.RPCs())
		}
	})
}

func TestCheckReadNeverSeeks(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		r.publish(3)
		if err := CheckRead(r.Context(), r.conn, "orders-sub", SeekBeginning, Runner("prism")); err != nil {
			t.Error(err)
		}
		n := r.srv.RPCs()
		if n["GetSubscription"] != 1 || n["Seek"]+n["Pull"]+n["StreamingPull"] != 0 {
			t.Errorf("calls %v", n)
		}
	})
}

func TestSeekIsDoneOnceAndSaidOnce(t *testing.T) {
	readBubble(t, nil, func(t *testing.T, r *readRig) {
		seeks := capture[*pubsubpb.SeekRequest](r, "Seek")
		r.publish(10)
		r.source(SeekToTime, SeekTime(time.Now().Add(-time.Hour)))
		for i := range 5 {
			r.publishFrom(10*i+10, 10)
			r.read(5, 20*time.Second) // some are in the hands of the instance before, for a while
			r.fail()
			r.worker += "x" // another instance takes over
		}
		if n := len(seeks()); n != 1 || len(r.logged("set back")) != 1 {
			t.Errorf("%d seeks, said %d times", n, len(r.logged("set back")))
		}
	})
}

// The service goes away and comes back at the same address.
func TestBrokerRestart(t *testing.T) {
	activateHooks()
	r := &readRig{T: t, worker: "worker-restart", srv: pubsubfake.New()}
	addr, err := r.srv.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		r.endJob()
		subscribers.CloseIdle()
		r.srv.Close()
	}()
	r.conn = Connection{ProjectID: testProject, EmulatorHost: addr}
	if err := r.srv.AddTopic(testTopic); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.AddSubscription(testSub, testTopic); err != nil {
		t.Fatal(err)
	}
	r.publish(200)
	r.source(BatchCount(20), MaxOutstandingMessages(100))
	read := func(got []Message, n int) []Message {
		for end := time.Now().Add(10 * time.Second); len(got) < n && time.Now().Before(end); {
			b := r.call().commit()
			if b.err != nil {
				t.Fatal(b.err)
			}
			got = append(got, b.got...)
		}
		return got
	}
	got := read(nil, 60)
	r.srv.Stop()
	for range 3 {
		got = append(got, r.call().commit().got...)
	}
	if _, err := r.srv.Start(addr); err != nil {
		t.Fatal(err)
	}
	r.checkAll(read(got, 200), 200)
	if n := r.reader().Stats().Reconnects.Load(); n == 0 {
		t.Error("no reconnect counted")
	}
}
