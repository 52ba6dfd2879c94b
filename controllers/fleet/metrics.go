// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

var (
	killsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_kills_total",
		Help: "Kills of the fleet that have ended, by what triggered them and how they ended, Unknown where that is not known.",
	}, []string{"trigger", "outcome"})
	releasedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "managedworkload_released_nodeworkloads_total",
		Help: "NodeWorkloads released because their node was lost, without an observed end of their containers.",
	})
)

func init() {
	metrics.Registry.MustRegister(killsTotal, releasedTotal)
}

// CountKills counts kills that have ended in one way.
func CountKills(ending Ending, n int) {
	killsTotal.WithLabelValues(string(ending.Trigger), outcomeLabel(ending.Outcome)).Add(float64(n))
}

// outcomeLabel names also the outcome that is not known.
func outcomeLabel(outcome v1alpha1.KillOutcome) string { return cmp.Or(string(outcome), "Unknown") }
