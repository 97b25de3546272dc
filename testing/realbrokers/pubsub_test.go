package realbrokers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func fakeInstall(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	bin := filepath.Join(dir, pubsubEmulatorBin)
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, []byte("#!/bin/sh\necho no such option >&2\nexit 3\n"), mode); err != nil {
		t.Fatal(err)
	}
	return bin
}

// withJava makes the machine look as if it had Java and no gcloud.
func withJava(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("JAVA_HOME", "")
}

func TestEmulatorIsFoundInTheFirstRootThatHasIt(t *testing.T) {
	withJava(t)
	empty, notProgram, good := t.TempDir(), t.TempDir(), t.TempDir()
	fakeInstall(t, filepath.Join(notProgram, pubsubEmulatorDir), 0o644)
	want := fakeInstall(t, filepath.Join(good, pubsubEmulatorDir), 0o755)
	got, err := findPubSubEmulator(t.Context(), "", []string{empty, notProgram, good})
	if err != nil || got != want {
		t.Fatalf("%q, %v", got, err)
	}
	home := t.TempDir()
	want = fakeInstall(t, home, 0o755)
	got, err = findPubSubEmulator(t.Context(), home, []string{good})
	if err != nil || got != want {
		t.Fatalf("the variable does not win: %q, %v", got, err)
	}
}

func TestMissingEmulatorIsSaidInPlainWords(t *testing.T) {
	withJava(t)
	_, err := findPubSubEmulator(t.Context(), "", []string{t.TempDir()})
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), pubsubEmulatorHome) {
		t.Fatal(err)
	}
	_, err = findPubSubEmulator(t.Context(), t.TempDir(), nil)
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	home := t.TempDir()
	fakeInstall(t, home, 0o755)
	_, err = findPubSubEmulator(t.Context(), home, nil)
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "Java") {
		t.Fatal(err)
	}
}

func TestEmulatorThatEndsAtOnceShowsItsOutput(t *testing.T) {
	withJava(t)
	home := t.TempDir()
	fakeInstall(t, home, 0o755)
	t.Setenv(pubsubEmulatorHome, home)
	_, _, err := PubSubEmulator(t.Context())
	if err == nil || errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "no such option") {
		t.Fatal(err)
	}
}
