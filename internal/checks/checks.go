// Package checks is what the programs under checks/ share: one result line, a
// bridge in a process of its own that can be stopped, killed and measured, and
// the books of what came where.
package checks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/beam-brokers/beam-brokers/testing/realbrokers"
)

// Main runs a check and ends the program: one line, "check-NAME: ok: ..." or
// "check-NAME: FAILED: ...", and exit code 1 for the latter. What cannot be had
// on this machine is said, and is no failure.
func Main(name string, timeout time.Duration, run func(ctx context.Context) (summary string, err error)) {
	if !flag.Parsed() {
		flag.Parse()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	summary, err := run(ctx)
	took := time.Since(begin).Round(100 * time.Millisecond)
	switch {
	case errors.Is(err, realbrokers.ErrNotInstalled):
		fmt.Printf("%s: skipped: %v\n", name, err)
	case err != nil:
		if summary != "" {
			summary = " (" + summary + ")"
		}
		fmt.Printf("%s: FAILED: %v%s in %v\n", name, err, summary, took)
		os.Exit(1)
	default:
		fmt.Printf("%s: ok: %s in %v\n", name, summary, took)
	}
}

// Say prints a line of progress to stderr; stdout has the result line only.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "  "+format+"\n", args...)
}

// A Claims collects what turned out wrong, so that one run tells all of it.
type Claims struct{ errs []error }

// That holds ok to be true.
func (c *Claims) That(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// Err is nil where everything held.
func (c *Claims) Err() error {
	if len(c.errs) == 0 {
		return nil
	}
	text := ""
	for i, e := range c.errs {
		if i > 0 {
			text += "; "
		}
		text += e.Error()
	}
	return errors.New(text)
}

// Wait asks ok every 50 ms until it is true.
func Wait(ctx context.Context, what string, limit time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w after %v", what, ctx.Err(), limit)
		case <-t.C:
		}
	}
	return nil
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
