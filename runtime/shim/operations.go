// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/runtime/cri"
)

// pullOperation is the operation whose time people look at.
const pullOperation = "pull_image"

// observeRuntime counts what is asked of the runtime, as the kubelet does
// (kubelet_runtime_operations_total).
func observeRuntime(reg prometheus.Registerer) cri.Observer {
	operations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_shim_runtime_operations_total",
		Help: "Calls of the container runtime, by operation type.",
	}, []string{"operation_type"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_shim_runtime_operations_errors_total",
		Help: "Calls of the container runtime that failed, by operation type.",
	}, []string{"operation_type"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "managedworkload_shim_runtime_operations_duration_seconds",
		Help:    "Time of calls of the container runtime, by operation type.",
		Buckets: []float64{.005, .02, .1, .5, 2, 10, 30, 120},
	}, []string{"operation_type"})
	pulls := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "managedworkload_shim_image_pull_duration_seconds",
		Help:    "Time of image pulls that succeeded.",
		Buckets: []float64{1, 5, 10, 20, 30, 60, 180, 300, 600, 1800},
	})
	pullErrors := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "managedworkload_shim_image_pull_errors_total",
		Help: "Image pulls that failed.",
	})
	reg.MustRegister(operations, failures, durations, pulls, pullErrors)
	return func(operation string, took time.Duration, err error) {
		operations.WithLabelValues(operation).Inc()
		durations.WithLabelValues(operation).Observe(took.Seconds())
		if err != nil {
			failures.WithLabelValues(operation).Inc()
		}
		switch {
		case operation != pullOperation:
		case err != nil:
			pullErrors.Inc()
		default:
			pulls.Observe(took.Seconds())
		}
	}
}
