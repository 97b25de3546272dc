package bridge

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// A screen is where progress and logs go. On a terminal the progress line is
// rewritten in place, and a log line pushes it down; elsewhere both are plain
// lines.
type screen struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool // a progress line stands at the cursor
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

const clearLine = "\r\x1b[K"

// Write writes log lines.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		s.shown = false
		if _, err := io.WriteString(s.out, clearLine); err != nil {
			return 0, err
		}
	}
	return s.out.Write(p)
}

// progress shows a line in place of the last one.
func (s *screen) progress(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.out, clearLine+s.fit(line))
		s.shown = true
		return
	}
	fmt.Fprintln(s.out, line)
}

// fit cuts a line that would break into two: those could not be rewritten.
func (s *screen) fit(line string) string {
	f, ok := s.out.(*os.File)
	if !ok {
		return line
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 && len(line) >= width {
		return line[:width-1]
	}
	return line
}

// follow shows the job's progress until ctx ends, and the totals then.
func (s *screen) follow(ctx context.Context, m *Meter, every time.Duration) {
	if s.terminal {
		every = time.Second
	} else if every == 0 {
		every = defaultInterval
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.progress(m.read(ctx, now).line())
		case <-ctx.Done():
			// What is asked now must not be cut off by ctx.
			fmt.Fprintln(s, "bridge: "+m.read(context.WithoutCancel(ctx), time.Now()).totals())
			return
		}
	}
}
