package bridge

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/queue"
)

// A Status is what a bridge has done and holds at one moment.
type Status struct {
	State        string `json:"state"`
	From         string `json:"from"`
	To           string `json:"to"`
	Read         int64  `json:"read"`
	Written      int64  `json:"written"`
	Failed       int64  `json:"failed"`
	DeadLettered int64  `json:"deadLettered"`
	Dropped      int64  `json:"dropped"`
	Retrying     int64  `json:"retrying"`
	Unsettled    int64  `json:"unsettled"`
	Acked        int64  `json:"acked"`
	Nacked       int64  `json:"nacked"`
	Redelivered  int64  `json:"redelivered"`
	Expired      int64  `json:"expired"`
	// WatermarkLag is how far the watermark is behind the clock, in seconds.
	WatermarkLag float64 `json:"watermarkLagSeconds"`
	// Backlog is what waits at the broker, -1 where nobody knows.
	Backlog int64 `json:"backlog"`
	// ReadRate and WriteRate are messages a second since the status before.
	ReadRate  float64 `json:"readRate"`
	WriteRate float64 `json:"writeRate"`
	// Seconds is how long the bridge has been running.
	Seconds float64 `json:"seconds"`

	lag time.Duration
}

// Status is what the job has done so far; rates are left to a Meter.
func (j *Job) Status(ctx context.Context) Status {
	q := queue.Totals()
	c := j.counters
	s := Status{
		State: j.State(), From: j.sides.from.Name, To: j.sides.to.Name,
		Read: c.Read.Load(), Written: c.Written.Load() + c.Retried.Load(), Failed: c.Failed.Load(),
		DeadLettered: c.DeadLettered.Load(), Dropped: c.Dropped.Load(), Retrying: c.Retrying.Load(),
		Unsettled: q.Unsettled, Acked: q.Acked, Nacked: q.Nacked + q.Released, Redelivered: q.Redelivered,
		Expired: q.Expired + q.LeaseExpired, Backlog: -1,
		WatermarkLag: q.WatermarkLag.Seconds(), lag: q.WatermarkLag,
	}
	if b := j.sides.from.Backlog; b != nil {
		if n, err := b(ctx); err == nil {
			s.Backlog = n
		}
	}
	return s
}

// A Meter turns statuses into rates.
type Meter struct {
	job   *Job
	start time.Time
	last  Status
	at    time.Time
}

func newMeter(j *Job, now time.Time) *Meter { return &Meter{job: j, start: now, at: now} }

// read is the status with rates since the last call.
func (m *Meter) read(ctx context.Context, now time.Time) Status {
	s := m.job.Status(ctx)
	if d := now.Sub(m.at).Seconds(); d > 0 {
		s.ReadRate = float64(s.Read-m.last.Read) / d
		s.WriteRate = float64(s.Written-m.last.Written) / d
	}
	s.Seconds = now.Sub(m.start).Seconds()
	m.last, m.at = s, now
	return s
}

// line is the status as one line of progress.
func (s Status) line() string {
	backlog := "-"
	if s.Backlog >= 0 {
		backlog = count(s.Backlog)
	}
	lag := "-"
	if s.lag > 0 {
		lag = span(s.lag)
	}
	text := fmt.Sprintf("read %s/s  written %s/s  failed %s  unsettled %s  watermark lag %s  backlog %s",
		count(int64(s.ReadRate+0.5)), count(int64(s.WriteRate+0.5)), count(s.Failed), count(s.Unsettled), lag, backlog)
	if s.State == stateDraining {
		text = "draining: " + text
	}
	return text
}

// totals is the last line.
func (s Status) totals() string {
	text := fmt.Sprintf("read %s  written %s  failed %s", count(s.Read), count(s.Written), count(s.Failed))
	for _, more := range []struct {
		name string
		n    int64
	}{
		{"dead letters", s.DeadLettered}, {"dropped", s.Dropped},
	} {
		if more.n > 0 {
			text += "  " + more.name + " " + count(more.n)
		}
	}
	text += fmt.Sprintf("  acknowledged %s  given back %s  in %s", count(s.Acked), count(s.Nacked), span(time.Duration(s.Seconds*float64(time.Second))))
	return text
}

// count writes a number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		return "-" + s
	}
	return s
}

// span writes a length of time in few characters.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < 2*time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + "s"
	case d < 2*time.Hour:
		return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + "m"
	}
	return strconv.FormatFloat(d.Hours(), 'f', 0, 64) + "h"
}
