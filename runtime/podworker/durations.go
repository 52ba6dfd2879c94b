// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// durations are how long starts and kills take. No label names a workload.
type durations struct {
	starts, plans   prometheus.Histogram
	graceUsed, gone *prometheus.HistogramVec
	preStops        *prometheus.HistogramVec
	ended           *prometheus.CounterVec
}

func newDurations() durations {
	return durations{
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_start_duration_seconds",
			Help:    "Time from the first sight of a new workload until all of its containers had started, with pulls and init containers.",
			Buckets: []float64{.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800},
		}),
		plans: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_plan_duration_seconds",
			Help:    "Time to decide what a workload needs.",
			Buckets: []float64{.0001, .0005, .001, .005, .02, .1, .5},
		}),
		graceUsed: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_kill_grace_used_ratio",
			Help:    "Part of their grace period that kills took, by trigger; above 1 the container had to be killed by force.",
			Buckets: []float64{.01, .05, .1, .25, .5, .75, .9, 1, 1.25, 2},
		}, []string{"trigger"}),
		gone: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_kill_duration_seconds",
			Help:    "Time from the decision to kill a container until it was gone, by trigger.",
			Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600},
		}, []string{"trigger"}),
		preStops: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "managedworkload_shim_prestop_duration_seconds",
			Help:    "Time of preStop hooks in whole seconds, by handler and outcome.",
			Buckets: []float64{0, 1, 2, 5, 10, 30, 60, 120, 300, 900},
		}, []string{"handler", "outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "managedworkload_shim_workloads_ended_total",
			Help: "Workloads that the shim has ended as failed, by the reason in their status: Evicted, Terminated, DeadlineExceeded.",
		}, []string{"reason"}),
	}
}

func (d *durations) planned(began time.Time) { d.plans.Observe(time.Since(began).Seconds()) }

// killTook counts how long a kill took. One whose end was not observed says nothing about it.
func (d *durations) killTook(rec *v1alpha1.KillRecord) {
	if p := rec.PreStop; p != nil && p.Outcome != "" && !rec.HookCutOff() {
		d.preStops.WithLabelValues(p.Handler, string(p.Outcome)).Observe(float64(p.Seconds))
	}
	if rec.FinishTime == nil || rec.Outcome == "" {
		return
	}
	took := max(rec.FinishTime.Sub(rec.StartTime.Time), 0) // the wall clock may have been set back
	d.gone.WithLabelValues(string(rec.Trigger)).Observe(took.Seconds())
	given := time.Duration(rec.Grace.Seconds) * time.Second
	if rec.Grace.Deadline != nil {
		given = rec.Grace.Deadline.Sub(rec.StartTime.Time)
	}
	if given > 0 {
		d.graceUsed.WithLabelValues(string(rec.Trigger)).Observe(took.Seconds() / given.Seconds())
	}
}

// startWatch is since when a workload is known that has not run yet; over once it has.
type startWatch struct {
	seen time.Time
	over bool
}

// reported counts what a report says for the first time.
func (d *durations) reported(before, now *corev1.PodStatus, start *startWatch) {
	ended := plan.Ended(now.Phase)
	if ended && now.Phase == corev1.PodFailed && now.Reason != "" && (before == nil || !plan.Ended(before.Phase)) {
		d.ended.WithLabelValues(now.Reason).Inc()
	}
	if start.over {
		return
	}
	if before != nil && before.Phase != "" && before.Phase != corev1.PodPending || ended {
		start.over = true // an earlier process has seen it start, or it never will
		return
	}
	if now.Phase == corev1.PodRunning {
		start.over = true
		if !survives(now, start.seen) {
			d.starts.Observe(time.Since(start.seen).Seconds())
		}
	}
}

// survives reports whether a container runs since before a time.
func survives(status *corev1.PodStatus, since time.Time) bool {
	for i := range status.ContainerStatuses {
		if running := status.ContainerStatuses[i].State.Running; running != nil && running.StartedAt.Time.Before(since) {
			return true
		}
	}
	return false
}
