package realbrokers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// killAfter is how long a broker may take to stop when asked to.
const killAfter = 5 * time.Second

// A process is a broker with all processes it started itself: launch scripts
// fork, so signals go to the whole group.
type process struct {
	cmd    *exec.Cmd
	output tail
	done   chan struct{} // closed when it has ended
	once   sync.Once
}

func startProcess(name string, env []string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Children that keep the output open must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in the output
	}()
	return p, nil
}

// stop ends the whole group and waits for it; it may be called several times.
func (p *process) stop() {
	p.once.Do(func() {
		p.signal(syscall.SIGTERM)
		t := time.NewTimer(killAfter)
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
		}
		// Children of a leader that has gone are still in its group.
		p.signal(syscall.SIGKILL)
		<-p.done
	})
}

func (p *process) signal(s syscall.Signal) {
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = p.cmd.Process.Kill() // the group cannot be reached: at least its leader
	}
}

// freePort is a loopback port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return port, nil
}

// A tail keeps the last part of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
