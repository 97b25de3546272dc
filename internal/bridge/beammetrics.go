package bridge

import (
	"context"
	"log/slog"
	"regexp"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	notMetricName = regexp.MustCompile(`[^a-zA-Z0-9_]`)
	hump          = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// metricName is a Beam metric's name in Prometheus' spelling: beam_published,
// beam_last_gather_message_count.
func metricName(name string) string {
	name = hump.ReplaceAllString(name, "${1}_${2}")
	return "beam_" + strings.ToLower(notMetricName.ReplaceAllString(name, "_"))
}

// A sample is one Beam metric, summed over the steps of the pipeline that have
// it.
type sample struct {
	kind       prometheus.ValueType
	value      float64
	count, sum int64 // of a distribution
	min, max   int64
	spread     bool // it is a distribution
}

type sampleKey struct{ name, connector string }

// beamMetrics sends the job's Beam metrics. A runner that gives none while the
// job runs has them in its own monitoring.
func (c *collector) beamMetrics(ctx context.Context, ch chan<- prometheus.Metric) {
	r, err := c.job.client.Metrics(ctx)
	if err != nil {
		slog.Debug("asking for Beam metrics", "error", err)
		return
	}
	for key, s := range gather(r) {
		send := func(suffix, help string, kind prometheus.ValueType, v float64) {
			desc := prometheus.NewDesc(key.name+suffix, help, nil, prometheus.Labels{"connector": key.connector})
			ch <- prometheus.MustNewConstMetric(desc, kind, v)
		}
		if !s.spread {
			suffix := ""
			if s.kind == prometheus.CounterValue {
				suffix = "_total"
			}
			send(suffix, "Beam metric of the connector.", s.kind, s.value)
			continue
		}
		send("_count", "Values of a Beam distribution.", prometheus.CounterValue, float64(s.count))
		send("_sum", "Sum of a Beam distribution.", prometheus.CounterValue, float64(s.sum))
		send("_min", "Least value of a Beam distribution.", prometheus.GaugeValue, float64(s.min))
		send("_max", "Greatest value of a Beam distribution.", prometheus.GaugeValue, float64(s.max))
	}
}

func gather(r *metrics.QueryResults) map[sampleKey]*sample {
	all := map[sampleKey]*sample{}
	at := func(k metrics.StepKey, kind prometheus.ValueType) *sample {
		key := sampleKey{metricName(k.Name), k.Namespace}
		if all[key] == nil {
			all[key] = &sample{kind: kind}
		}
		return all[key]
	}
	for _, m := range r.Counters() {
		at(m.Key, prometheus.CounterValue).value += float64(m.Result())
	}
	for _, m := range r.Gauges() {
		at(m.Key, prometheus.GaugeValue).value += float64(m.Result().Value)
	}
	for _, m := range r.Distributions() {
		d, s := m.Result(), at(m.Key, prometheus.UntypedValue)
		if !s.spread {
			s.spread, s.min, s.max = true, d.Min, d.Max
		}
		s.count, s.sum = s.count+d.Count, s.sum+d.Sum
		s.min, s.max = min(s.min, d.Min), max(s.max, d.Max)
	}
	return all
}
