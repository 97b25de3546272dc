package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds a package of this module (or, with dir, of another) and returns
// the program's path. The caller removes its directory.
func Build(ctx context.Context, dir, pkg string, flags ...string) (path string, remove func(), err error) {
	tmp, err := os.MkdirTemp("", "beam-brokers-check-")
	if err != nil {
		return "", nil, fmt.Errorf("making a directory for %s: %w", pkg, err)
	}
	remove = func() { _ = os.RemoveAll(tmp) } // at worst it stays behind in the temporary directory
	path = filepath.Join(tmp, "program")
	args := append([]string{"build", "-p", "2", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("building %s: %w: %s", pkg, err, bytes.TrimSpace(out))
	}
	return path, remove, nil
}

// A Process is a program under test.
type Process struct {
	cmd   *exec.Cmd
	done  chan struct{}
	begun time.Time
	ended time.Time

	mu     sync.Mutex
	output bytes.Buffer
}

// Start starts a program.
func Start(path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{}), begun: time.Now()}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	// It must not outlive a check that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code is asked for
		p.ended = time.Now()
	}()
	return p, nil
}

// Write takes the program's output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Output is what the program has printed so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Tail is the last lines of the output.
func (p *Process) Tail() string {
	lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], " | ")
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// Kill is kill -9, and waits for the end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Ended tells whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits for the end and returns the exit code; -1 after a signal.
func (p *Process) Wait(limit time.Duration) (code int, err error) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-t.C:
		return 0, fmt.Errorf("the program did not end within %v: %s", limit, p.Tail())
	}
}

// Stop sends SIGTERM and wants exit code 0 within limit. It returns how long
// that took.
func (p *Process) Stop(limit time.Duration) (time.Duration, error) {
	begin := time.Now()
	p.Signal(syscall.SIGTERM)
	code, err := p.Wait(limit)
	took := time.Since(begin)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d after SIGTERM: %s", code, p.Tail())
	}
	return took, err
}

// clockTick is the unit of times in /proc; Linux has had no other for long.
const clockTick = 10 * time.Millisecond

// CPU is the processor time the program has used.
func (p *Process) CPU() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("reading processor time: unexpected form")
	}
	var ticks int64
	for _, f := range fields[11:13] { // user and system
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// Memory is the resident memory in bytes, now and at most.
func (p *Process) Memory() (now, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		if name != "VmRSS" && name != "VmHWM" || len(f) == 0 {
			continue
		}
		kib, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading memory: %w", err)
		}
		if name == "VmRSS" {
			now = kib << 10
		} else {
			peak = kib << 10
		}
	}
	return now, peak, nil
}
