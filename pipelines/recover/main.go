// Command recover writes what a Pub/Sub subscription holds, or what it held at
// a time or snapshot, to files of newline-delimited JSON, and ends.
//
//	recover --out DIR --opt projectId=P --opt subscription=S \
//	    --opt seek=snapshot --opt seekSnapshot=recovery --opt batchCount=25000 \
//	    --opt limitTime=2026-09-18T12:34:45Z
//
// Options are those of pubsubio's source by their documented names; trigger is
// availableNow. Each line has the documented columns of schemaMode and
// metadataMode. A file holds a batch, bounded by batchCount and batchSize, and
// appears under its name only when it is complete and on disk; its messages are
// acknowledged after that. A run that is killed leaves no half file under a
// final name, and its unacknowledged messages come again: at least once.
//
// Use a subscription of its own: seek moves it.
//
// Exit codes: 0 done, 1 failed, 2 wrong options.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // runners and their flags

	"github.com/beam-brokers/beam-brokers/internal/drain"
	"github.com/beam-brokers/beam-brokers/internal/prism"
	"github.com/beam-brokers/beam-brokers/pubsubio"
)

// options takes --opt NAME=VALUE.
type options map[string]string

func (o options) String() string { return "" }

func (o options) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("needs NAME=VALUE")
	}
	if _, twice := o[name]; twice {
		return fmt.Errorf("%s: comes twice", name)
	}
	o[name] = value
	return nil
}

var (
	out  = flag.String("out", "", "directory of the files; it is made if it is not there")
	opts = options{}
)

func main() {
	flag.Var(opts, "opt", "an option of pubsubio's source, NAME=VALUE; as often as needed")
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, opts, *out, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the command; it returns the exit code.
func run(ctx context.Context, opts options, dir string, stdout, stderr io.Writer) int {
	set, err := settings(opts, dir)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(stderr, "recover: "+strings.TrimSuffix(line, "\n"))
		}
		return 2
	}
	for _, n := range set.read.Notices {
		fmt.Fprintln(stderr, "recover: "+n)
	}
	if err := pubsubio.CheckRead(ctx, set.read.Connection, set.read.Subscription, set.read.Options...); err != nil {
		fmt.Fprintln(stderr, "recover:", err)
		return 1
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		fmt.Fprintln(stderr, "recover: making --out:", err)
		return 1
	}
	job := "recover-" + strings.ToLower(rand.Text()[:10])
	d := drain.Job{Pipeline: set.pipeline(job), Runner: set.runner, Client: drain.NewClient(job)}
	err = d.Run(ctx)
	t := totalsOf(job)
	fmt.Fprintf(stdout, "recover: %d messages in %d files\n", t.messages.Load(), t.files.Load())
	if err != nil {
		fmt.Fprintln(stderr, "recover:", err)
		return 1
	}
	return 0
}

// A recovery is what the options ask for.
type recovery struct {
	read   pubsubio.ReadSettings
	write  writeFn
	runner string
}

// settings reads the options; the error has one line for each mistake.
func settings(opts options, dir string) (*recovery, error) {
	all := options{"trigger": string(pubsubio.TriggerAvailableNow)}
	for name, value := range opts {
		all[name] = value
	}
	var errs []error
	if t := all["trigger"]; t != string(pubsubio.TriggerAvailableNow) {
		errs = append(errs, fmt.Errorf("trigger=%s: is not what a recovery does (legal: availableNow)", t))
	}
	if dir == "" {
		errs = append(errs, errors.New("--out: is required"))
	}
	r := &recovery{runner: prism.Captured()}
	if r.runner == "" {
		r.runner = "prism"
	}
	if err := prism.CheckRunner(r.runner); err != nil {
		errs = append(errs, err)
	}
	var err error
	r.read, err = pubsubio.ReadFromMap(all)
	errs = append(errs, err)
	r.write = writeFn{Dir: dir, SchemaMode: pubsubio.SchemaBasic, MetadataMode: pubsubio.MetadataNone}
	if m := all["schemaMode"]; m != "" {
		r.write.SchemaMode = pubsubio.SchemaMode(strings.TrimSpace(m))
	}
	if m := all["metadataMode"]; m != "" {
		r.write.MetadataMode = pubsubio.MetadataMode(strings.TrimSpace(m))
	}
	return r, errors.Join(errs...)
}

// pipeline reads and writes in one stage, so that a message is acknowledged
// only when its file is durable.
func (r *recovery) pipeline(job string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	read := pubsubio.Read(s, r.read.Connection, r.read.Subscription, r.read.Options...)
	write := r.write
	write.Job = job
	beam.ParDo0(s, &write, read.Messages)
	beam.ParDo0(s, undecodable, read.Failed)
	return p
}
