package checks

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Bridge is the bridge's program with the options of a check.
type Bridge struct {
	path   string
	remove func()
	// Args are the arguments of bridge run.
	Args []string
}

// NewBridge builds the program, or takes the one that the variable BRIDGE
// names. from and to are options of pubsub, "name=value".
func NewBridge(ctx context.Context, from, to []string, more ...string) (*Bridge, error) {
	b := &Bridge{path: os.Getenv("BRIDGE"), remove: func() {}, Args: []string{"run", "--from", "pubsub", "--to", "pubsub", "--interval", "2s"}}
	for _, o := range from {
		b.Args = append(b.Args, "--from-opt", o)
	}
	for _, o := range to {
		b.Args = append(b.Args, "--to-opt", o)
	}
	b.Args = append(b.Args, more...)
	if b.path != "" {
		return b, nil
	}
	var err error
	b.path, b.remove, err = Build(ctx, "", "github.com/beam-brokers/beam-brokers/pipelines/bridge")
	return b, err
}

// Remove deletes the program.
func (b *Bridge) Remove() { b.remove() }

// Start starts it.
func (b *Bridge) Start() (*Process, error) { return Start(b.path, b.Args...) }

// Ready waits until it has said that it runs.
func Ready(ctx context.Context, p *Process) error {
	err := Wait(ctx, "the bridge to start", 30*time.Second, func() bool {
		return strings.Contains(p.Output(), " on prism") || p.Ended()
	})
	if err == nil && p.Ended() {
		err = fmt.Errorf("the bridge ended at once: %s", p.Tail())
	}
	return err
}

// StopWithin is how long a bridge may take to end after SIGTERM.
const StopWithin = 15 * time.Second
