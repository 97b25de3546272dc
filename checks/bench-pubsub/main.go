// Command bench-pubsub measures pubsubio on Prism beside the plain client, both
// in this process, against testing/pubsubfake in a process of its own: reading
// with acknowledgement, and publishing. It prints a table in Markdown, and fails
// when pubsubio is slower than -ratio of the plain client.
//
// Runs alternate between the two, so that both see the same machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx" // Prism and its flags

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

var (
	n       = flag.Int("n", 500_000, "messages of a run")
	size    = flag.Int("size", 1024, "bytes of each")
	runs    = flag.Int("runs", 5, "runs of each kind")
	ratio   = flag.Float64("ratio", 0.5, "least part of the plain client's rate")
	least   = flag.Float64("raw", 150_000, "least rate of the plain client; below it the fake is the limit")
	only    = flag.String("only", "", "read or write; both by default")
	clients = flag.Int("inflight", 8, "publish requests in flight of the plain client")
)

func main() {
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	checks.Main("bench-pubsub", 30*time.Minute, run)
}

// A result is one run.
type result struct {
	rate float64       // messages a second
	cpu  time.Duration // processor time of this process for a message
}

// A series is the runs of one kind.
type series struct {
	name    string
	results []result
	measure func(ctx context.Context) (result, error)
}

func run(ctx context.Context) (string, error) {
	f, err := startFake(ctx)
	if err != nil {
		return "", err
	}
	defer f.stop()
	read := []*series{
		{name: "plain client, read", measure: f.rawRead},
		{name: "pubsubio.Read on Prism", measure: f.beamRead},
	}
	write := []*series{
		{name: "plain client, publish", measure: f.rawWrite},
		{name: "pubsubio.Write on Prism", measure: f.beamWrite},
	}
	var all []*series
	if *only != "write" {
		all = append(all, read...)
	}
	if *only != "read" {
		all = append(all, write...)
	}
	for i := range *runs {
		for _, s := range all {
			r, err := s.measure(ctx)
			if err != nil {
				return "", fmt.Errorf("%s: %w", s.name, err)
			}
			checks.Say("run %d, %s: %.0f msg/s, %.1f us of CPU a message", i+1, s.name, r.rate, float64(r.cpu.Nanoseconds())/1e3)
			s.results = append(s.results, r)
		}
	}
	table(all)
	var c checks.Claims
	summary := fmt.Sprintf("%d x %d B, %d runs:", *n, *size, *runs)
	for i := 0; i+1 < len(all); i += 2 {
		plain, ours := all[i].median(), all[i+1].median()
		summary += fmt.Sprintf(" %s %.0f msg/s = %.2f of %.0f;", all[i+1].name, ours, ours/plain, plain)
		c.That(plain >= *least, "%s reaches %.0f msg/s only: the fake is the limit", all[i].name, plain)
		c.That(ours >= *ratio*plain, "%s reaches %.2f of the plain client, less than %.2f", all[i+1].name, ours/plain, *ratio)
	}
	return summary, c.Err()
}

func (s *series) rates() []float64 {
	var rates []float64
	for _, r := range s.results {
		rates = append(rates, r.rate)
	}
	slices.Sort(rates)
	return rates
}

func (s *series) median() float64 { return s.rates()[len(s.results)/2] }

func (s *series) cpu() time.Duration {
	var cpus []time.Duration
	for _, r := range s.results {
		cpus = append(cpus, r.cpu)
	}
	slices.Sort(cpus)
	return cpus[len(cpus)/2]
}

// table prints the results for docs/performance.md.
func table(all []*series) {
	fmt.Printf("%d messages of %d bytes, %d runs each, %s, %d CPUs, GOMAXPROCS %d\n\n",
		*n, *size, *runs, runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0))
	fmt.Println("| | median msg/s | lowest | highest | CPU per message | of the plain client |")
	fmt.Println("|---|---|---|---|---|---|")
	for i, s := range all {
		rates := s.rates()
		of := "1"
		if i%2 == 1 {
			of = fmt.Sprintf("%.2f", s.median()/all[i-1].median())
		}
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.1f us | %s |\n", s.name, s.median(), rates[0], rates[len(rates)-1],
			float64(s.cpu().Nanoseconds())/1e3, of)
	}
	fmt.Println()
}

// A stopwatch measures time and processor time of this process.
type stopwatch struct {
	begin time.Time
	cpu   time.Duration
}

func begin() stopwatch { return stopwatch{time.Now(), processorTime()} }

// result is that of n messages since begin.
func (w stopwatch) result(n int) result {
	return result{float64(n) / time.Since(w.begin).Seconds(), (processorTime() - w.cpu) / time.Duration(n)}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
