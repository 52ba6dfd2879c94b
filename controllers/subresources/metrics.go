// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	watchesGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "managedworkload_subresources_watches",
		Help: "Watches of shims for the objects that NodeWorkloads of their nodes refer to.",
	})
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_subresources_requests_total",
		Help: "Requests to the aggregated API for objects, tokens and usage, by resource and status code of the answer.",
	}, []string{"resource", "code"})
)

func init() { metrics.Registry.MustRegister(watchesGauge, requestsTotal) }
