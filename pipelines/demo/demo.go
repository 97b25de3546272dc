package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/bridge"
	"github.com/beam-brokers/beam-brokers/internal/rawpubsub"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const (
	project  = "demo-project"
	source   = "projects/" + project + "/topics/orders"
	fromName = "projects/" + project + "/subscriptions/orders-bridge"
	sink     = "projects/" + project + "/topics/orders-copy"
	checked  = "projects/" + project + "/subscriptions/orders-check"
)

// A demo is one run.
type demo struct {
	n, size int
	fault   string
	out     io.Writer
}

// A stage is a row of the table.
type stage struct {
	name  string
	count int64
	took  time.Duration
}

// run does all of it and tells whether every message arrived once.
func (d *demo) run(ctx context.Context) (ok bool, err error) {
	lost, err := faults(d.fault, d.n)
	if err != nil {
		return false, err
	}
	server := pubsubfake.New(pubsubfake.WithoutHistory())
	defer server.Close()
	address, err := server.Start("127.0.0.1:0")
	if err != nil {
		return false, err
	}
	client, err := rawpubsub.Dial(ctx, address)
	if err != nil {
		return false, err
	}
	defer client.Close()
	if err := errors.Join(
		client.Create(ctx, source, fromName, 10*time.Second, ordered),
		client.Create(ctx, sink, checked, 10*time.Second, ordered),
	); err != nil {
		return false, err
	}
	fmt.Fprintf(d.out, "demo: %d messages of %d bytes: generated -> pubsub -> bridge -> pubsub -> checked\n", d.n, d.size)
	r := &relay{demo: d, client: client, address: address, lost: lost}
	if err := r.run(ctx); err != nil {
		return false, err
	}
	left := server.Stats(fromName).Unacked
	d.table(r, left)
	return r.book.report(d.out, d.n) && left == 0, nil
}

func ordered(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true }

// A relay is the messages' way from the generator to the checker.
type relay struct {
	*demo
	client  *rawpubsub.Client
	address string
	lost    map[int]bool // not published, on purpose

	book      *book
	generated time.Duration
	bridged   bridge.Status
	took      time.Duration
}

// run runs generator, bridge and checker at once, and ends the bridge by
// draining it when nothing more comes.
func (r *relay) run(ctx context.Context) error {
	job, err := bridge.New(r.config())
	if err != nil {
		return err
	}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	r.book = newBook(r.n, r.size)
	errs := make([]error, 3)
	begin := time.Now()
	var bridging, checking sync.WaitGroup
	stopBridge, drain := context.WithCancel(all)
	defer drain()
	bridging.Go(func() {
		errs[0] = job.Follow(stopBridge, r.out)
		if errs[0] != nil {
			cancel() // nobody has to wait for messages any more
		}
	})
	checking.Go(func() {
		errs[1] = r.client.Receive(all, checked, r.book.receive)
		if errs[1] != nil {
			cancel()
		}
	})
	errs[2] = r.client.Publish(all, source, r.n, func(i int) *pubsubpb.PubsubMessage {
		if r.lost[i] {
			return nil
		}
		return message(i, r.size)
	})
	r.generated = time.Since(begin)
	if errs[2] == nil {
		r.book.wait(all, r.n-len(r.lost), quietFor)
	}
	r.took = time.Since(begin)
	r.bridged = job.Status(ctx)
	drain()
	bridging.Wait()
	// What the bridge wrote last, and what came twice, is on its way still.
	r.book.wait(all, r.n+1, settleFor)
	cancel()
	checking.Wait()
	return errors.Join(errs...)
}

const (
	// quietFor is how long the checker waits for a message that does not come.
	quietFor = 15 * time.Second
	// settleFor is how long it looks for duplicates in the end.
	settleFor = time.Second
)

func (r *relay) config() bridge.Config {
	options := func(name, value string) map[string]string {
		return map[string]string{"emulatorHost": r.address, name: value}
	}
	return bridge.Config{
		From:     bridge.Endpoint{System: "pubsub", Options: options("subscription", fromName)},
		To:       bridge.Endpoint{System: "pubsub", Options: options("topic", sink)},
		Interval: 2 * time.Second,
	}
}

func (d *demo) table(r *relay, left int64) {
	w := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "stage\tmessages\tseconds\tper second\t\n")
	for _, s := range []stage{
		{"generated", int64(d.n - len(r.lost)), r.generated},
		{"read by the bridge", r.bridged.Read, r.took},
		{"written by the bridge", r.bridged.Written, r.took},
		{"received and checked", int64(r.book.received()), r.book.took},
	} {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.0f\t\n", s.name, s.count, s.took.Seconds(), float64(s.count)/max(s.took.Seconds(), 1e-3))
	}
	fmt.Fprintf(w, "left unacknowledged\t%d\t\t\t\n", left)
	_ = w.Flush() // the writer is the terminal
}
