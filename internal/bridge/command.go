package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// The exit codes of the command.
const (
	exitDone    = 0 // drained, or the source ended
	exitFailed  = 1 // it failed while running, or could not connect
	exitMistake = 2 // wrong options; nothing was connected to
)

const usage = `bridge moves messages from one broker to another.

  bridge run     --from SYSTEM --from-opt NAME=VALUE ... --to SYSTEM --to-opt NAME=VALUE ...
  bridge run     -f bridge.yaml
  bridge check   with the flags of run: connects and looks, moves no message
  bridge options SYSTEM: the table of its options

Systems: %s

Flags of run and check
  -f FILE                     a bridge.yaml; flags win over it
  --from, --to SYSTEM         the two sides
  --from-opt, --to-opt N=V    one option; as often as needed
  --dead-letter SYSTEM        where messages go that cannot be read or written
  --dead-letter-opt N=V       one of its options
  --on-failure stop|retry|drop
                              without a dead letter sink (default stop): end with
                              exit code 1, the message stays unacknowledged; try
                              it for ever; count it and lose it
  --http HOST:PORT            metrics, health and a live page
  --interval 10s              between progress lines that do not go to a terminal
  --log-level warn            debug, info, warn or error
  --print-config              print the configuration, secrets masked, and end
  --runner prism              Beam's runner, in this process by default; the
                              flags of other runners are passed on to them

SIGINT and SIGTERM drain: receiving ends, what is in hand is written and
acknowledged, the rest is given back. A second signal stops at once.
Exit codes: 0 drained, 1 failed while running, 2 wrong options.
`

// Main is the command. args are the arguments behind the program's name.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintf(stderr, usage, systemNames())
		return exitMistake
	}
	switch args[0] {
	case "run":
		return withJob(args[1:], stdout, stderr, run)
	case "check":
		return withJob(args[1:], stdout, stderr, check)
	case "options":
		return showOptions(args[1:], stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprintf(stdout, usage, systemNames())
		return exitDone
	}
	commands := []string{"run", "check", "options", "help"}
	near := options.Nearest(args[0], commands)
	if near != "" {
		near = ", did you mean " + near + "?"
	}
	fmt.Fprintf(stderr, "bridge: %s: is not a command%s (legal: %s)\n", args[0], near, strings.Join(commands, ", "))
	return exitMistake
}

// withJob reads the arguments, reports every mistake, and goes on with a Job.
func withJob(args []string, stdout, stderr io.Writer, do func(*Job, *screen, io.Writer) int) int {
	c, err := parse(args)
	if c.help {
		fmt.Fprintf(stdout, usage, systemNames())
		return exitDone
	}
	if err != nil || c.printConfig {
		if c.printConfig {
			fmt.Fprint(stdout, c.Shown())
		}
		// What was understood may be wrong as well: all of it in one go.
		return report(stderr, errors.Join(err, c.setBeamFlags(), second(c.validate())))
	}
	out := newScreen(stderr)
	if !beam.Initialized() {
		beam.Init()
	}
	slog.SetDefault(slog.New(newLogHandler(out, level(c.LogLevel))))
	j, err := New(c.Config)
	if err != nil {
		return report(stderr, err)
	}
	for _, w := range j.Warnings {
		fmt.Fprintln(stderr, "bridge: "+w)
	}
	return do(j, out, stdout)
}

func second[T any](_ T, err error) error { return err }

// report prints one line for each mistake.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	for _, line := range options.Lines(err) {
		fmt.Fprintln(stderr, "bridge: "+line)
	}
	return exitMistake
}

func level(name string) slog.Level {
	var l slog.Level
	if name == "" || l.UnmarshalText([]byte(name)) != nil {
		return slog.LevelWarn
	}
	return l
}

// run is bridge run.
func run(j *Job, out *screen, _ io.Writer) int {
	ctx, now, release := stopSignals(out)
	defer release()
	if warnings, err := j.Check(ctx); err != nil {
		return failed(out, err)
	} else {
		say(out, warnings)
	}
	meter := newMeter(j, time.Now())
	server, err := j.serve(j.config.HTTP)
	if err != nil {
		return failed(out, err)
	}
	defer server.close()
	fmt.Fprintf(out, "bridge: %s -> %s on %s\n", j.sides.from.Name, j.sides.to.Name, j.config.runner())
	if err := j.follow(ctx, now, out, meter); err != nil {
		return failed(out, err)
	}
	return exitDone
}

// follow runs the job and shows its progress.
func (j *Job) follow(ctx context.Context, now <-chan struct{}, out *screen, meter *Meter) error {
	following, done := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { out.follow(following, meter, j.config.Interval) })
	err := j.Run(ctx, now)
	done()
	wg.Wait()
	return err
}

// Follow is Run with lines of progress to out, as bridge run shows them.
func (j *Job) Follow(ctx context.Context, out io.Writer) error {
	return j.follow(ctx, nil, newScreen(out), newMeter(j, time.Now()))
}

// check is bridge check.
func check(j *Job, out *screen, stdout io.Writer) int {
	ctx, _, release := stopSignals(out)
	defer release()
	warnings, err := j.Check(ctx)
	say(out, warnings)
	if err != nil {
		return failed(out, err)
	}
	fmt.Fprintf(stdout, "bridge: ok: %s -> %s\n", j.sides.from.Name, j.sides.to.Name)
	if d := j.sides.deadLetter; d != nil {
		fmt.Fprintf(stdout, "bridge: ok: dead letters -> %s\n", d.Name)
	}
	return exitDone
}

func say(out *screen, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(out, "bridge: "+w)
	}
}

func failed(out *screen, err error) int {
	for _, line := range options.Lines(err) {
		fmt.Fprintln(out, "bridge: "+line)
	}
	return exitFailed
}

// stopSignals ends ctx at the first signal and closes now at the second.
func stopSignals(out *screen) (ctx context.Context, now <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	at := make(chan struct{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				switch n {
				case 0:
					fmt.Fprintf(out, "bridge: %v: draining; a second signal stops at once\n", s)
					cancel()
				case 1:
					close(at)
				}
			case <-stop:
				return
			}
		}
	})
	return ctx, at, func() {
		signal.Stop(signals)
		close(stop)
		wg.Wait()
		cancel()
	}
}

// showOptions is bridge options.
func showOptions(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintf(stderr, "bridge: options: needs the name of a system (legal: %s)\n", systemNames())
		return exitMistake
	}
	sys, err := find("options", args[0])
	if err != nil {
		return report(stderr, err)
	}
	fmt.Fprint(stdout, sys.Docs().Text())
	return exitDone
}
