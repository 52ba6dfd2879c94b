// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var (
	killsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_kills_total",
		Help: "Kills of the fleet that have ended, by what triggered them and how they ended, Unknown where that is not known.",
	}, []string{"trigger", "outcome"})
	nodesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "managedworkload_nodes",
		Help: "Nodes of each ManagedWorkload by state: desired, updated, ready, available, unreachable.",
	}, []string{"namespace", "name", "state"})
	releasedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "managedworkload_released_nodeworkloads_total",
		Help: "NodeWorkloads released because their node was lost, without an observed end of their containers.",
	})
)

func init() {
	metrics.Registry.MustRegister(killsTotal, nodesGauge, releasedTotal)
}

func countKill(k *v1alpha1.NodeKillRecord) {
	killsTotal.WithLabelValues(string(k.Trigger), outcomeLabel(k)).Inc()
}

// outcomeLabel names also the outcome that is not known.
func outcomeLabel(k *v1alpha1.NodeKillRecord) string { return cmp.Or(string(k.Outcome), "Unknown") }

func setWorkloadMetrics(mw *v1alpha1.ManagedWorkload, status *v1alpha1.ManagedWorkloadStatus) {
	for state, n := range map[string]int32{
		"desired":     status.DesiredNodes,
		"updated":     status.UpdatedNodes,
		"ready":       status.ReadyNodes,
		"available":   status.AvailableNodes,
		"unreachable": status.UnreachableNodes,
	} {
		nodesGauge.WithLabelValues(mw.Namespace, mw.Name, state).Set(float64(n))
	}
}

func dropWorkloadMetrics(name types.NamespacedName) {
	nodesGauge.DeletePartialMatch(prometheus.Labels{"namespace": name.Namespace, "name": name.Name})
}
