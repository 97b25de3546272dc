// Command demo shows the bridge at work on a machine with nothing on it: it
// starts a Pub/Sub server in the process, publishes messages, has the bridge
// move them from one topic to another and checks every one that arrives.
//
//	make demo N=50000
//
// Its last line is "demo: sent=N received=N missing=0 duplicates=0"; it ends
// with exit code 1 when a message is missing, came twice or came altered.
// DEMO_FAULT=drop3 leaves three messages unpublished, which the check must find.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func main() {
	n := flag.Int("n", 50_000, "number of messages")
	size := flag.Int("size", 1024, "bytes of each")
	timeout := flag.Duration("timeout", 5*time.Minute, "longest time for all of it")
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	d := &demo{n: *n, size: *size, out: os.Stdout, fault: os.Getenv("DEMO_FAULT")}
	ok, err := d.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
