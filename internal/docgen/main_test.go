package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOptionsDocumentIsNotStale(t *testing.T) {
	want, err := os.ReadFile("../../docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	if document() != string(want) {
		t.Error("docs/options.md is stale; run make docs and commit what it changed")
	}
	out := filepath.Join(t.TempDir(), "options.md")
	if err := run(out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != document() {
		t.Errorf("what is written differs: %v", err)
	}
}
