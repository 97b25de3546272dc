//go:build integration

package realbrokers

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestEmulatorStartsAndLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	host, stop, err := PubSubEmulator(ctx)
	if errors.Is(err, ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	stop()
	stop()
	if conn, err := net.Dial("tcp", host); err == nil {
		_ = conn.Close()
		t.Fatal("it still listens")
	}
}
