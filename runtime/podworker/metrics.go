// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Metrics are what the workers count.
type Metrics struct {
	kills    *prometheus.CounterVec
	restarts prometheus.Counter
	panics   prometheus.Counter
	// saveFailures counts checkpoints that were not written, or not in time.
	saveFailures prometheus.Counter
	syncs        *prometheus.HistogramVec
	workloads    prometheus.Gauge
	durations
}

// NewMetrics makes the metrics and registers them; a nil registerer leaves them
// unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		kills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "managedworkload_shim_kills_total",
			Help: "Kills that have ended, by trigger and outcome, Unknown where that is not known.",
		}, []string{"trigger", "outcome"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "managedworkload_shim_container_restarts_total",
			Help: "Restarts of containers.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "managedworkload_shim_worker_panics_total",
			Help: "Panics of workers that were recovered.",
		}),
		saveFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "managedworkload_shim_checkpoint_failures_total",
			Help: "Writes of checkpoints that failed, or took longer than a kill waits for them.",
		}),
		syncs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_sync_duration_seconds",
			Help:    "Time a worker took for one step, by its state.",
			Buckets: []float64{.005, .02, .1, .3, 1, 3, 10, 30, 100},
		}, []string{"state"}),
		workloads: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "managedworkload_shim_workloads",
			Help: "Workloads that have a worker on this node.",
		}),
	}
	m.durations = newDurations()
	if reg != nil {
		reg.MustRegister(m.kills, m.restarts, m.panics, m.saveFailures, m.syncs, m.workloads)
		reg.MustRegister(m.starts, m.plans, m.graceUsed, m.gone, m.preStops, m.ended)
	}
	return m
}

func (m *Metrics) killEnded(rec v1alpha1.KillRecord) {
	m.kills.WithLabelValues(string(rec.Trigger), outcomeLabel(rec)).Inc()
	m.killTook(&rec)
}

// outcomeLabel names also the outcome that is not known.
func outcomeLabel(rec v1alpha1.KillRecord) string { return cmp.Or(string(rec.Outcome), "Unknown") }

func (m *Metrics) stepped(s State, start time.Time) {
	m.syncs.WithLabelValues(string(s)).Observe(time.Since(start).Seconds())
}
