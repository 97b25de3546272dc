package bridge

import (
	"context"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// systems are all that a bridge can stand between. A new one is one entry.
var systems = []System{pubsubSystem}

func systemNames() string {
	var names []string
	for _, s := range systems {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// A System is one kind of broker.
type System struct {
	// Name is what the command line calls it.
	Name string
	// Docs are its options.
	Docs func() options.Doc
	// Secret tells whether the value of an option must never be shown; the
	// names of unknown options are asked for, too.
	Secret func(option string) bool
	// Source and Sink read the options of a side. The error joins every
	// mistake; nothing is connected to.
	Source func(opts map[string]string) (*Source, error)
	Sink   func(opts map[string]string) (*Sink, error)
}

// A Source is where messages come from.
type Source struct {
	// Name says what is read, for people.
	Name string
	// Notices are lines to be said once.
	Notices []string
	// Destinations tells that its messages say where they want to be sent.
	Destinations bool
	// Read adds the source: a PCollection of Record, and one of FailedRecord
	// for what could not be decoded.
	Read func(s beam.Scope) (records, failed beam.PCollection)
	// Check connects and looks for what is read, without taking any message
	// and without moving any position. It returns warnings.
	Check func(ctx context.Context) (warnings []string, err error)
	// Backlog is the number of messages that wait at the broker; nil where
	// nobody knows.
	Backlog func(ctx context.Context) (int64, error)
}

// A Sink is where messages go.
type Sink struct {
	// Name says what is written to, for people.
	Name string
	// Notices are lines to be said once.
	Notices []string
	// NeedsDestination names the option that says where messages go, where it was
	// not given; empty where it was.
	NeedsDestination string
	// Boundary says why the sink needs a stage of its own (it is not crash-safe
	// on Prism then); empty: it does not.
	Boundary string
	// Write adds the sink: an element, of any type, for each Record that is
	// written, and a FailedRecord for each other.
	Write func(s beam.Scope, records beam.PCollection) (published, failed beam.PCollection)
	// Resend adds a transform that tries each Record until it is written, one
	// after another. Its output is like Write's published.
	Resend func(s beam.Scope, records beam.PCollection) (published beam.PCollection)
	// Check connects and looks for what is written to. It returns warnings.
	Check func(ctx context.Context) (warnings []string, err error)
}
