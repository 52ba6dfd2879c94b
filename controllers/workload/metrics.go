// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var nodesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "managedworkload_nodes",
	Help: "Nodes of each ManagedWorkload by state: desired, updated, ready, available, unreachable.",
}, []string{"namespace", "name", "state"})

func init() {
	metrics.Registry.MustRegister(nodesGauge)
}

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
