package bridge

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // the flags of Beam and all runners

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// A command line is what one of bridge's subcommands was given.
type commandLine struct {
	Config
	file        string
	printConfig bool
	help        bool
}

// notPassed are flags of the program's own flag set that are not Beam's to
// take: those of a worker and of go test.
func notPassed(name string) bool {
	return strings.HasPrefix(name, "test.") || slices.Contains(
		[]string{"worker", "id", "logging_endpoint", "control_endpoint", "semi_persist_dir", "options"}, name)
}

// beamFlags are the flags of Beam and its runners, by name.
func beamFlags() map[string]*flag.Flag {
	m := map[string]*flag.Flag{}
	flag.CommandLine.VisitAll(func(f *flag.Flag) {
		if !notPassed(f.Name) {
			m[f.Name] = f
		}
	})
	return m
}

// A beamFlag takes a flag of Beam's without setting it: nothing is set before
// all of the command line is right.
type beamFlag struct {
	*flag.Flag
	into map[string]string
}

func (f beamFlag) String() string {
	if f.Flag == nil {
		return ""
	}
	return f.DefValue
}

func (f beamFlag) Set(value string) error {
	f.into[f.Name] = value
	return nil
}

// IsBoolFlag says that the flag needs no value.
func (f beamFlag) IsBoolFlag() bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// pairs takes a flag that comes once for each NAME=VALUE.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("needs NAME=VALUE") // the text is not shown: it may be a secret
	}
	if _, twice := p[name]; twice {
		return fmt.Errorf("%s: comes twice", name)
	}
	p[name] = value
	return nil
}

// parse reads the arguments of a subcommand, a file first where one is named:
// flags win over it, option by option. The error joins every mistake.
func parse(args []string) (*commandLine, error) {
	given := newCommandLine()
	errs := given.flags(args)
	if given.help || given.file == "" {
		return given, errors.Join(errs...)
	}
	c := newCommandLine()
	if err := c.readFile(given.file); err != nil {
		errs = append(errs, err)
	}
	c.overlay(given)
	return c, errors.Join(errs...)
}

func newCommandLine() *commandLine {
	var c commandLine
	c.From.Options, c.To.Options, c.DeadLetter.Options = pairs{}, pairs{}, pairs{}
	c.Runner = map[string]string{}
	return &c
}

// overlay puts what was given as flags over what the file says.
func (c *commandLine) overlay(given *commandLine) {
	for _, side := range []struct{ have, want *Endpoint }{
		{&c.From, &given.From}, {&c.To, &given.To}, {&c.DeadLetter, &given.DeadLetter},
	} {
		if side.want.System != "" && side.want.System != side.have.System {
			*side.have = Endpoint{side.want.System, pairs{}} // another system's options mean nothing here
		}
		maps.Copy(side.have.Options, side.want.Options)
	}
	over := func(have *string, want string) {
		if want != "" {
			*have = want
		}
	}
	over(&c.OnFailure, given.OnFailure)
	over(&c.HTTP, given.HTTP)
	over(&c.LogLevel, given.LogLevel)
	if given.Interval != 0 {
		c.Interval = given.Interval
	}
	maps.Copy(c.Runner, given.Runner)
	c.file, c.printConfig = given.file, given.printConfig
}

// flags reads the arguments and goes on after a mistake.
func (c *commandLine) flags(args []string) (errs []error) {
	fs := flag.NewFlagSet("bridge", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.define(fs)
	for {
		err := fs.Parse(args)
		rest := fs.Args()
		switch {
		case errors.Is(err, flag.ErrHelp):
			c.help = true
			return errs
		case err != nil:
			errs = append(errs, flagMistake(fs, err))
			if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				rest = rest[1:] // most likely the value of the flag that is wrong
			}
		case len(rest) == 0:
			return errs
		default:
			errs = append(errs, mistake("", "an argument that belongs to no flag stands after the flags; options are written --from-opt NAME=VALUE"))
			rest = rest[1:]
		}
		args = rest
	}
}

func (c *commandLine) define(fs *flag.FlagSet) {
	fs.StringVar(&c.file, "f", "", "")
	fs.StringVar(&c.From.System, "from", "", "")
	fs.Var(pairs(c.From.Options), "from-opt", "")
	fs.StringVar(&c.To.System, "to", "", "")
	fs.Var(pairs(c.To.Options), "to-opt", "")
	fs.StringVar(&c.DeadLetter.System, "dead-letter", "", "")
	fs.Var(pairs(c.DeadLetter.Options), "dead-letter-opt", "")
	fs.StringVar(&c.OnFailure, "on-failure", "", "")
	fs.StringVar(&c.HTTP, "http", "", "")
	fs.StringVar(&c.LogLevel, "log-level", "", "")
	fs.BoolVar(&c.printConfig, "print-config", false, "")
	fs.Func("interval", "", func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("is not a duration (legal: 1s or more, with a unit)")
		}
		c.Interval = d
		return nil
	})
	for name, f := range beamFlags() {
		if fs.Lookup(name) == nil {
			fs.Var(beamFlag{f, c.Runner}, name, "")
		}
	}
}

// flagMistake makes one line of the flag package's error, without the value.
func flagMistake(fs *flag.FlagSet, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		near := options.Nearest(strings.TrimPrefix(name, "-"), names)
		if near != "" {
			near = ", did you mean --" + near + "?"
		}
		return mistake("", "--%s: is not a flag%s", strings.TrimPrefix(name, "-"), near)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return mistake("", "--%s: needs a value", name)
	}
	// invalid value "X" for flag -name: reason
	if i := strings.LastIndex(text, " for flag -"); i >= 0 {
		name, reason, _ := strings.Cut(text[i+len(" for flag -"):], ": ")
		return mistake("", "--%s: %s", name, reason)
	}
	return mistake("", "%s", text)
}

// setBeamFlags gives Beam its flags. They count as given on the command line,
// so that runners pass them on.
func (c *Config) setBeamFlags() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Runner)) {
		if err := flag.Set(name, c.Runner[name]); err != nil {
			errs = append(errs, mistake("", "--%s: %v", name, err))
		}
	}
	if c.Runner["runner"] == "" {
		if err := flag.Set("runner", c.runner()); err != nil {
			errs = append(errs, mistake("", "--runner: %v", err))
		}
	}
	return errors.Join(errs...)
}
