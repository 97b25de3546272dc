package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestConformanceDocumentIsNotStale(t *testing.T) {
	want, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "conformance.md")
	if err := run(out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("docs/conformance.md is stale; run make docs and commit what it changed")
	}
}
