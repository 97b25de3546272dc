package bridge

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/options"
	"github.com/beam-brokers/beam-brokers/internal/prism"
)

// What becomes of a message that cannot be written where there is no dead
// letter sink.
const (
	// OnFailureStop ends the bridge with exit code 1; the message stays
	// unacknowledged.
	OnFailureStop = "stop"
	// OnFailureRetry tries the message until it is written or the bridge stops.
	OnFailureRetry = "retry"
	// OnFailureDrop counts the message and settles it: it is lost.
	OnFailureDrop = "drop"
)

// defaultInterval is the time between two progress lines that do not go to a
// terminal.
const defaultInterval = 10 * time.Second

// An Endpoint is one side of a bridge.
type Endpoint struct {
	// System is a name of the table of systems: "pubsub".
	System string
	// Options are that system's options by their documented names.
	Options map[string]string
}

// A Config is all that a bridge is asked for. The zero value of a field is its
// default, but for From and To.
type Config struct {
	From, To Endpoint
	// DeadLetter is where messages go that cannot be written, and those that
	// cannot be decoded. No System: nowhere, and OnFailure says what happens.
	DeadLetter Endpoint
	// OnFailure is stop, retry or drop. Default stop.
	OnFailure string
	// HTTP is the address, host:port, of metrics, health and the live page.
	// Default none.
	HTTP string
	// Interval is the time between progress lines that do not go to a
	// terminal. Default 10 s.
	Interval time.Duration
	// LogLevel is debug, info, warn or error. Default warn.
	LogLevel string
	// Runner holds the flags for Beam and its runners that were given, by name.
	// Default runner: prism, in this process.
	Runner map[string]string
}

// runner is the name of the runner.
func (c *Config) runner() string {
	if r := c.Runner["runner"]; r != "" {
		return r
	}
	return "prism"
}

// A Mistake is one thing that is wrong with a Config, as one line.
type Mistake struct {
	// Where is the side it belongs to: "from", "to", "dead-letter" or empty.
	Where string
	// Problem names the option and what is wrong.
	Problem string
}

func (m *Mistake) Error() string {
	if m.Where == "" {
		return m.Problem
	}
	return m.Where + ": " + m.Problem
}

func mistake(where, format string, args ...any) error {
	return &Mistake{where, fmt.Sprintf(format, args...)}
}

// sides are what a valid Config comes to.
type sides struct {
	from       *Source
	to         *Sink
	deadLetter *Sink
}

// notices are the lines to be said once, at the start.
func (s *sides) notices() []string {
	var all []string
	add := func(where string, notices []string) {
		for _, n := range notices {
			all = append(all, where+": "+n)
		}
	}
	add("from", s.from.Notices)
	add("to", s.to.Notices)
	if s.deadLetter != nil {
		add("dead-letter", s.deadLetter.Notices)
	}
	return all
}

// validate reads all options and reports every mistake of every side at once.
// It connects to nothing.
func (c *Config) validate() (*sides, error) {
	var s sides
	errs := []error{c.validateSelf()}
	if sys, err := find("from", c.From.System); err != nil {
		errs = append(errs, err)
	} else {
		s.from, err = sys.Source(c.From.Options)
		errs = append(errs, of("from", err))
	}
	if sys, err := find("to", c.To.System); err != nil {
		errs = append(errs, err)
	} else {
		s.to, err = sys.Sink(c.To.Options)
		errs = append(errs, of("to", err))
	}
	switch {
	case c.DeadLetter.System != "":
		if sys, err := find("dead-letter", c.DeadLetter.System); err != nil {
			errs = append(errs, err)
		} else {
			s.deadLetter, err = sys.Sink(c.DeadLetter.Options)
			errs = append(errs, of("dead-letter", err))
		}
	case len(c.DeadLetter.Options) > 0:
		errs = append(errs, mistake("", "--dead-letter: is required with --dead-letter-opt (legal: %s)", systemNames()))
	}
	errs = append(errs, s.destinations())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &s, nil
}

// destinations wants a destination for every message, from the sink's options
// where the messages bring none.
func (s *sides) destinations() error {
	var errs []error
	if s.from != nil && s.to != nil && s.to.NeedsDestination != "" && !s.from.Destinations {
		errs = append(errs, mistake("to", "%s: is required, because the messages of --from name no destination", s.to.NeedsDestination))
	}
	if s.deadLetter != nil && s.deadLetter.NeedsDestination != "" {
		errs = append(errs, mistake("dead-letter", "%s: is required", s.deadLetter.NeedsDestination))
	}
	return errors.Join(errs...)
}

func (c *Config) validateSelf() error {
	var errs []error
	legal := []string{OnFailureStop, OnFailureRetry, OnFailureDrop}
	switch {
	case c.OnFailure == "":
	case !slices.Contains(legal, c.OnFailure):
		errs = append(errs, oneOf("--on-failure", c.OnFailure, legal))
	case c.DeadLetter.System != "":
		errs = append(errs, mistake("", "--on-failure=%s: contradicts --dead-letter, which takes what fails; give one", c.OnFailure))
	}
	if levels := []string{"debug", "info", "warn", "error"}; c.LogLevel != "" && !slices.Contains(levels, c.LogLevel) {
		errs = append(errs, oneOf("--log-level", c.LogLevel, levels))
	}
	if c.Interval < 0 || c.Interval > 0 && c.Interval < time.Second {
		errs = append(errs, mistake("", "--interval=%v: is out of range (legal: 1s or more)", c.Interval))
	}
	if c.HTTP != "" {
		if _, port, err := net.SplitHostPort(c.HTTP); err != nil || port == "" {
			errs = append(errs, mistake("", "--http=%s: is not an address (legal: HOST:PORT or :PORT)", c.HTTP))
		}
	}
	if err := prism.CheckRunner(c.runner()); err != nil {
		errs = append(errs, mistake("", "--runner=%s: is refused: %v", c.runner(), errors.Unwrap(err)))
	}
	return errors.Join(errs...)
}

// oneOf is the mistake of a value that is none of several words.
func oneOf(flag, value string, legal []string) error {
	near := options.Nearest(value, legal)
	if near != "" {
		near = ", did you mean " + near + "?"
	}
	return mistake("", "%s=%s: is not a legal value%s (legal: %s)", flag, value, near, strings.Join(legal, ", "))
}

// find is the system of a side.
func find(where, name string) (*System, error) {
	if name == "" {
		return nil, mistake("", "--%s: is required (legal: %s)", where, systemNames())
	}
	for i := range systems {
		if systems[i].Name == name {
			return &systems[i], nil
		}
	}
	var names []string
	for _, s := range systems {
		names = append(names, s.Name)
	}
	return nil, oneOf("--"+where, name, names)
}

// of says of each mistake of err which side it is about.
func of(where string, err error) error {
	var errs []error
	for _, line := range options.Lines(err) {
		errs = append(errs, &Mistake{where, line})
	}
	return errors.Join(errs...)
}

// clone copies the maps, so that defaults can be put in.
func (e Endpoint) clone() map[string]string {
	if e.Options == nil {
		return map[string]string{}
	}
	return maps.Clone(e.Options)
}
