// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var resizesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "managedworkload_reservation_resizes_total",
	Help: "Resizes of the Pods that reserve for NodeWorkloads, by whether the API server took or refused them (asked, refused).",
}, []string{"outcome"})

func init() { metrics.Registry.MustRegister(resizesTotal) }
