// Command pubsubfake runs the fake Pub/Sub server in a process of its own, for
// checks that stop, kill or measure the program under test.
//
//	pubsubfake -create orders/bridge -load orders:100000:1024
//
// It prints one line, for example
//
//	pubsub=127.0.0.1:41234 http=127.0.0.1:41235
//
// and runs until SIGINT or SIGTERM. SIGUSR1 prints the counters as one line of
// JSON; the HTTP address serves them and the rest of the control side (see
// pubsubfake.Server.Handler).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pubsubfake:", err)
		os.Exit(1)
	}
}

// A list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}

type settings struct {
	listen, http, project string
	create, load          list
	ackDeadline           time.Duration
	history, ordering     bool
	noFlowControl         bool
}

func parse(args []string) (*settings, error) {
	c := &settings{}
	fs := flag.NewFlagSet("pubsubfake", flag.ContinueOnError)
	fs.StringVar(&c.listen, "listen", "127.0.0.1:0", "address for Pub/Sub clients")
	fs.StringVar(&c.http, "http", "127.0.0.1:0", "address of the HTTP control side; empty for none")
	fs.StringVar(&c.project, "project", "fake-project", "project of -create and -load")
	fs.Var(&c.create, "create", "TOPIC or TOPIC/SUBSCRIPTION to create, by id; may be repeated")
	fs.Var(&c.load, "load", "TOPIC:N:BYTES, messages to store at the start, after -create; may be repeated")
	fs.DurationVar(&c.ackDeadline, "ack-deadline", 10*time.Second, "of the subscriptions of -create")
	fs.BoolVar(&c.ordering, "ordering", false, "enable message ordering for the subscriptions of -create")
	fs.BoolVar(&c.history, "history", false, "keep acknowledged messages in memory")
	fs.BoolVar(&c.noFlowControl, "no-flow-control", false, "ignore the limits of streams, as the official emulator does")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return c, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	var opts []pubsubfake.Option
	if !c.history {
		opts = append(opts, pubsubfake.WithoutHistory())
	}
	if c.noFlowControl {
		opts = append(opts, pubsubfake.WithoutFlowControl())
	}
	srv := pubsubfake.New(opts...)
	defer srv.Close()
	if err := c.prepare(srv); err != nil {
		return err
	}
	addr, err := srv.Start(c.listen)
	if err != nil {
		return err
	}
	line := "pubsub=" + addr
	if c.http != "" {
		lis, err := net.Listen("tcp", c.http)
		if err != nil {
			return fmt.Errorf("listening for the control side: %w", err)
		}
		web := &http.Server{Handler: srv.Handler(), ReadHeaderTimeout: 10 * time.Second}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = web.Serve(lis) // ends by Close
		}()
		defer func() {
			_ = web.Close()
			<-served
		}()
		line += " http=" + lis.Addr().String()
	}
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	defer signal.Stop(usr1)
	if _, err := fmt.Fprintln(out, line); err != nil {
		return fmt.Errorf("printing the address: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-usr1:
			all := srv.AllStats()
			for name, t := range all.Topics {
				t.RequestLog = nil
				all.Topics[name] = t
			}
			if err := json.NewEncoder(out).Encode(all); err != nil {
				return fmt.Errorf("printing the counters: %w", err)
			}
		}
	}
}

// prepare makes the topics, subscriptions and messages of the command line.
func (c *settings) prepare(srv *pubsubfake.Server) error {
	topics := map[string]bool{}
	full := func(kind, id string) string { return "projects/" + c.project + "/" + kind + "/" + id }
	for _, spec := range c.create {
		topic, sub, both := strings.Cut(spec, "/")
		if !topics[topic] {
			if err := srv.AddTopic(full("topics", topic)); err != nil {
				return fmt.Errorf("creating topic %q: %w", topic, err)
			}
			topics[topic] = true
		}
		if !both {
			continue
		}
		err := srv.AddSubscription(full("subscriptions", sub), full("topics", topic), func(pb *pubsubpb.Subscription) {
			pb.AckDeadlineSeconds = int32(c.ackDeadline / time.Second)
			pb.EnableMessageOrdering = c.ordering
		})
		if err != nil {
			return fmt.Errorf("creating subscription %q: %w", sub, err)
		}
	}
	for _, spec := range c.load {
		parts := strings.Split(spec, ":")
		if len(parts) != 3 {
			return fmt.Errorf("-load %q: want TOPIC:N:BYTES", spec)
		}
		n, err := strconv.Atoi(parts[1])
		if err != nil {
			return fmt.Errorf("-load %q: reading the number: %w", spec, err)
		}
		size, err := strconv.Atoi(parts[2])
		if err != nil {
			return fmt.Errorf("-load %q: reading the size: %w", spec, err)
		}
		if err := srv.Load(full("topics", parts[0]), n, size); err != nil {
			return fmt.Errorf("loading topic %q: %w", parts[0], err)
		}
	}
	return nil
}
