// Command conformancedoc writes docs/conformance.md, what each connector is
// tested for on each broker, from the tables that the tests run by.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/beam-brokers/beam-brokers/testing/conformance"
	"github.com/beam-brokers/beam-brokers/testing/conformance/pubsub"
)

//go:generate go run . -out ../../docs/conformance.md

// tables are the columns, in the order of the document.
var tables = []conformance.Features{pubsub.Fake, pubsub.Emulator}

func main() {
	out := flag.String("out", "", "file to write; standard output when empty")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "conformancedoc:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	for _, f := range tables {
		if err := f.Validate(); err != nil {
			return err
		}
	}
	text := conformance.Document(tables...)
	if out == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	if err := os.WriteFile(out, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the conformance table: %w", err)
	}
	return nil
}
