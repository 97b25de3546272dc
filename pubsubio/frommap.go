package pubsubio

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// ReadSettings is what a map of documented options says about a Read.
type ReadSettings struct {
	Connection   Connection
	Subscription string
	Options      []ReadOption
	// Notices are lines to be said once: options taken without effect, and
	// deprecated spellings.
	Notices []string
}

// ReadFromMap reads the options of a source, each under its documented name.
// The error joins every mistake, one a line, those of the options together
// included.
func ReadFromMap(m map[string]string) (ReadSettings, error) {
	var s ReadSettings
	r := readTable.Parse(m, &s)
	s.Notices = r.Notices
	_, err := newReadConfig(s.Connection, s.Subscription, s.Options...)
	return s, r.And(err)
}

// WriteSettings is what a map of documented options says about a Write.
type WriteSettings struct {
	Connection Connection
	Options    []WriteOption
	// Notices are lines to be said once.
	Notices []string
}

// WriteFromMap is ReadFromMap for a sink.
func WriteFromMap(m map[string]string) (WriteSettings, error) {
	var s WriteSettings
	r := writeTable.Parse(m, &s)
	s.Notices = r.Notices
	_, err := newWriteConfig(s.Connection, s.Options...)
	return s, r.And(err)
}

// OptionDocs returns the documented options of both directions, for documents
// and the command line.
func OptionDocs() options.Doc {
	return options.Doc{
		Name: "pubsub", Package: "pubsubio",
		Sections: []options.Section{
			{Title: "Source", Rows: readTable.Rows(), NoEffect: readTable.NoEffect, Refused: readTable.Refused},
			{Title: "Sink", Rows: writeTable.Rows(), NoEffect: writeTable.NoEffect, Refused: writeTable.Refused},
		},
	}
}

// spark names the document that options come from.
const spark = "spark-streaming-google-pubsub"

// seconds are the units of every duration: a bare number is seconds.
var seconds = options.Units{Bare: time.Second}

func readOpt[T any](f func(T) ReadOption) func(*ReadSettings, T) {
	return func(s *ReadSettings, v T) { s.Options = append(s.Options, f(v)) }
}

func writeOpt[T any](f func(T) WriteOption) func(*WriteSettings, T) {
	return func(s *WriteSettings, v T) { s.Options = append(s.Options, f(v)) }
}

// asRead and asWrite narrow an option of both directions.
func asRead[T any](f func(T) Option) func(T) ReadOption {
	return func(v T) ReadOption { return f(v) }
}

func asWrite[T any](f func(T) Option) func(T) WriteOption {
	return func(v T) WriteOption { return f(v) }
}

// connectionOptions are the rows that set the Connection, for either direction.
func connectionOptions[C any](conn func(*C) *Connection) []options.Option[C] {
	text := func(i options.Info, field func(*Connection) *string) options.Option[C] {
		return options.Text(i, func(c *C, v string) { *field(conn(c)) = strings.TrimSpace(v) })
	}
	return []options.Option[C]{
		text(options.Info{
			Name: "projectId", Typed: "Connection.ProjectID", Sample: "my-project", Source: spark,
			Doc: "Google Cloud project of every id that is not a full name. Required where there is one.",
		}, func(c *Connection) *string { return &c.ProjectID }),
		text(options.Info{
			Name: "credentialsFile", Typed: "Connection.CredentialsFile", Default: "ADC", Sample: "/etc/keys/sa.json", Source: spark,
			Doc: "Path, on the worker, of a credentials JSON file. Omitted: Application Default Credentials.",
		}, func(c *Connection) *string { return &c.CredentialsFile }),
		text(options.Info{
			Name: "emulatorHost", Typed: "Connection.EmulatorHost", Legal: "HOST:PORT", Sample: "localhost:8085", Source: spark,
			Doc: "Address of an emulator, spoken to in plain text and without credentials.",
		}, func(c *Connection) *string { return &c.EmulatorHost }),
		text(options.Info{
			Name: "endpoint", Typed: "Connection.Endpoint", Legal: "HOST:PORT", Sample: "europe-west1-pubsub.googleapis.com:443",
			Doc: "Another service address, regional or private.",
		}, func(c *Connection) *string { return &c.Endpoint }),
	}
}

// parseWriters reads numWriters: a number, or auto.
func parseWriters(text string) (int, error) {
	text = strings.TrimSpace(text)
	if strings.EqualFold(text, "auto") {
		return Auto, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("is neither a number of 1 or more nor auto")
	}
	return n, nil
}
