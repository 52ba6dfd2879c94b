// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

var nodesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "managedworkload_nodes",
	Help: "Nodes of each ManagedWorkload by state: desired, current, updated, ready, available, completed, unavailable, unreachable, misscheduled, drained.",
}, []string{"namespace", "name", "state"})

var (
	waitingGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "managedworkload_rollout_waiting_nodes",
		Help: "Nodes of each ManagedWorkload that do not get the update revision now, by why they wait.",
	}, []string{"namespace", "name", "reason"})
	waitingSinceGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "managedworkload_rollout_waiting_timestamp_seconds",
		Help: "Since when nodes of each ManagedWorkload wait, by why, in seconds since 1970; not earlier than this manager began.",
	}, []string{"namespace", "name", "reason"})
	progressGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "managedworkload_rollout_progress_timestamp_seconds",
		Help: "When the roll-out of each ManagedWorkload made its last progress, in seconds since 1970; there is none for one that waits for nothing.",
	}, []string{"namespace", "name"})
)

var stalledGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "managedworkload_stalled",
	Help: "1 for each ManagedWorkload whose condition Stalled is True, by its reason; there is none for the others.",
}, []string{"namespace", "name", "reason"})

func init() {
	metrics.Registry.MustRegister(nodesGauge, stalledGauge, waitingGauge, waitingSinceGauge, progressGauge)
}

func setWorkloadMetrics(mw *v1alpha1.ManagedWorkload, status *v1alpha1.ManagedWorkloadStatus, f *facts) {
	for state, n := range map[string]int32{
		"desired":      status.DesiredNodes,
		"current":      status.CurrentNodes,
		"unavailable":  status.UnavailableNodes,
		"misscheduled": status.MisscheduledNodes,
		"updated":      status.UpdatedNodes,
		"ready":        status.ReadyNodes,
		"available":    status.AvailableNodes,
		"completed":    int32(f.completed()),
		"unreachable":  status.UnreachableNodes,
		"drained":      status.DrainedNodes,
	} {
		nodesGauge.WithLabelValues(mw.Namespace, mw.Name, state).Set(float64(n))
	}
}

// setStalledMetric says what needs a person.
func setStalledMetric(mw *v1alpha1.ManagedWorkload, status *v1alpha1.ManagedWorkloadStatus) {
	stalledGauge.DeletePartialMatch(prometheus.Labels{"namespace": mw.Namespace, "name": mw.Name})
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		stalledGauge.WithLabelValues(mw.Namespace, mw.Name, c.Reason).Set(1)
	}
}

// setRollOutMetrics says what waits, and since when nothing has come further.
func setRollOutMetrics(mw *v1alpha1.ManagedWorkload, g *rolling, progress rollout.Progress, waits rollout.Waits) {
	of := prometheus.Labels{"namespace": mw.Namespace, "name": mw.Name}
	waitingGauge.DeletePartialMatch(of)
	waitingSinceGauge.DeletePartialMatch(of)
	progressGauge.DeletePartialMatch(of)
	if g == nil {
		return
	}
	for reason, n := range g.waiting() {
		waitingGauge.WithLabelValues(mw.Namespace, mw.Name, string(reason)).Set(float64(n))
		waitingSinceGauge.WithLabelValues(mw.Namespace, mw.Name, string(reason)).Set(float64(waits[reason].Since.Unix()))
	}
	if !progress.Done && g.tally.Left > 0 && !g.in.Strategy.Paused {
		progressGauge.WithLabelValues(mw.Namespace, mw.Name).Set(float64(progress.Since.Unix()))
	}
}

func dropWorkloadMetrics(name types.NamespacedName) {
	of := prometheus.Labels{"namespace": name.Namespace, "name": name.Name}
	for _, gauge := range []*prometheus.GaugeVec{nodesGauge, stalledGauge, waitingGauge, waitingSinceGauge, progressGauge} {
		gauge.DeletePartialMatch(of)
	}
}
