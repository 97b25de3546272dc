package bridge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var page []byte

// A server answers for metrics (/metrics), health (/healthz), the status as
// JSON (/status) and the live page (/). The zero value serves nothing.
type server struct {
	http *http.Server
	wg   sync.WaitGroup
	addr string
}

// serve starts the server; an empty address starts none.
func (j *Job) serve(address string) (*server, error) {
	s := &server{}
	if address == "" {
		return s, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	s.addr = listener.Addr().String()
	s.http = &http.Server{Handler: j.handler(), ReadHeaderTimeout: 5 * time.Second}
	s.wg.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Warn("serving --http", "error", err)
		}
	})
	return s, nil
}

func (s *server) close() {
	if s.http == nil {
		return
	}
	_ = s.http.Close() // open requests are cut; the process ends
	s.wg.Wait()
}

func (j *Job) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{job: j}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", j.health)
	meter, mu := newMeter(j, time.Now()), &sync.Mutex{}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(meter.look(r.Context(), time.Now())) // the client has gone
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page) // the client has gone
	})
	return mux
}

// look is read for several viewers: the rates are of at least half a second.
func (m *Meter) look(ctx context.Context, now time.Time) Status {
	if now.Sub(m.at) >= 500*time.Millisecond {
		return m.read(ctx, now)
	}
	s := m.job.Status(ctx)
	s.ReadRate, s.WriteRate, s.Seconds = m.last.ReadRate, m.last.WriteRate, now.Sub(m.start).Seconds()
	return s
}

// health answers 200 while messages flow or may flow, else 503.
func (j *Job) health(w http.ResponseWriter, _ *http.Request) {
	state := j.State()
	if state != stateRunning {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(w, state)
}

// A collector exports the bridge's status, and the Beam metrics of the job
// under their own names with the connector as a label.
type collector struct{ job *Job }

var statusMetrics = []struct {
	name, help string
	kind       prometheus.ValueType
	of         func(*Status) float64
}{
	{"bridge_read_total", "Messages taken from the source.", prometheus.CounterValue, func(s *Status) float64 { return float64(s.Read) }},
	{"bridge_written_total", "Messages written to the sink.", prometheus.CounterValue, func(s *Status) float64 { return float64(s.Written) }},
	{"bridge_failed_total", "Messages that could not be read or written.", prometheus.CounterValue, func(s *Status) float64 { return float64(s.Failed) }},
	{"bridge_dead_lettered_total", "Messages written to the dead letter sink.", prometheus.CounterValue, func(s *Status) float64 { return float64(s.DeadLettered) }},
	{"bridge_dropped_total", "Messages that failed and were dropped (--on-failure=drop).", prometheus.CounterValue, func(s *Status) float64 { return float64(s.Dropped) }},
	{"bridge_retrying", "Messages being tried again (--on-failure=retry).", prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Retrying) }},
	{"bridge_unsettled", "Messages received and neither acknowledged nor given back.", prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Unsettled) }},
	{"bridge_watermark_lag_seconds", "How far the watermark is behind the clock.", prometheus.GaugeValue, func(s *Status) float64 { return s.WatermarkLag }},
	{"bridge_up", "1 while the bridge is running.", prometheus.GaugeValue, func(s *Status) float64 {
		if s.State == stateRunning {
			return 1
		}
		return 0
	}},
}

// Describe sends nothing: which metrics a job has is not known before it runs.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// scrapeTimeout bounds the question for Beam's metrics.
const scrapeTimeout = 5 * time.Second

// Collect sends the present values.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := c.job.Status(ctx)
	for _, m := range statusMetrics {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.name, m.help, nil, nil), m.kind, m.of(&s))
	}
	if s.Backlog >= 0 {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("bridge_backlog", "Messages that wait at the broker.", nil, nil), prometheus.GaugeValue, float64(s.Backlog))
	}
	c.beamMetrics(ctx, ch)
}
