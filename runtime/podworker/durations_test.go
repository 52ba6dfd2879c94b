// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// sums are the counts and sums of histograms, and the values of counters, that have any.
func sums(t *testing.T, reg *prometheus.Registry) map[string][2]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][2]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h.GetSampleCount() > 0 {
				before := found[family.GetName()]
				found[family.GetName()] = [2]float64{before[0] + float64(h.GetSampleCount()), before[1] + h.GetSampleSum()}
			}
			if c := m.GetCounter().GetValue(); c > 0 {
				found[family.GetName()] = [2]float64{c, 0}
			}
		}
	}
	return found
}

// A kill counts with the time until the container was gone, the part of its grace period that it took,
// also where that was shortened, and its hook.
func TestKillDurations(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(seconds int) *metav1.MicroTime {
		return new(metav1.NewMicroTime(begun.Add(time.Duration(seconds) * time.Second)))
	}
	rec := v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Outcome: v1alpha1.KillOutcomeForced, StartTime: *at(0), FinishTime: at(6),
		Grace:   v1alpha1.KillGrace{Seconds: 30},
		PreStop: &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopSucceeded, Seconds: 2},
	}
	shortened, open, unknown := rec, rec, rec
	shortened.Grace.Deadline, shortened.PreStop = at(4), nil
	open.FinishTime, open.PreStop = nil, &v1alpha1.KillPreStop{Handler: "exec"}
	unknown.Outcome, unknown.PreStop = "", nil
	cutOff := unknown
	cutOff.PreStop = &v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopTimedOut}
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	for _, r := range []v1alpha1.KillRecord{rec, shortened, open, unknown, cutOff} {
		m.killTook(&r)
	}
	want := map[string][2]float64{
		"managedworkload_shim_kill_duration_seconds": {2, 12}, "managedworkload_shim_kill_grace_used_ratio": {2, 1.7},
		"managedworkload_shim_prestop_duration_seconds": {1, 2},
	}
	if diff := cmp.Diff(want, sums(t, reg)); diff != "" {
		t.Error(diff)
	}
}

// The first start of a workload counts once; one that ran before this process says nothing about it.
func TestStartDuration(t *testing.T) {
	running := func(since time.Time) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(since)}}},
		}}
	}
	pending, evicted := &corev1.PodStatus{Phase: corev1.PodPending}, &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	tests := map[string]struct {
		reports func(begun time.Time) []*corev1.PodStatus
		want    map[string][2]float64
	}{
		"starts": {func(begun time.Time) []*corev1.PodStatus {
			later := running(begun.Add(time.Hour))
			return []*corev1.PodStatus{nil, pending, later, pending, later}
		}, map[string][2]float64{"managedworkload_shim_start_duration_seconds": {1, 2}}},
		"known": {func(begun time.Time) []*corev1.PodStatus { return []*corev1.PodStatus{running(begun), running(begun)} }, map[string][2]float64{}},
		"ran before": {func(begun time.Time) []*corev1.PodStatus {
			return []*corev1.PodStatus{nil, running(begun.Add(-time.Second))}
		}, map[string][2]float64{}},
		"ended":           {func(time.Time) []*corev1.PodStatus { return []*corev1.PodStatus{pending, evicted, evicted} }, map[string][2]float64{"managedworkload_shim_workloads_ended_total": {1, 0}}},
		"ended by itself": {func(time.Time) []*corev1.PodStatus { return []*corev1.PodStatus{pending, {Phase: corev1.PodFailed}} }, map[string][2]float64{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				m, start := NewMetrics(reg), startWatch{seen: time.Now()}
				reports := tt.reports(start.seen)
				for i, before := range reports[:len(reports)-1] {
					time.Sleep(time.Second)
					m.reported(before, reports[i+1], &start)
				}
				if diff := cmp.Diff(tt.want, sums(t, reg)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
