// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/controllers/subresources"
	"github.com/managedworkload/managedworkload/controllers/webhook"
)

// Options are the settings of the manager.
type Options struct {
	options.Shared
	// LeaderElect lets only one of several managers act.
	LeaderElect bool
	// IgnoreResourceQuotas lets workloads have what quotas limit for Pods, and accepts templates
	// in namespaces whose quotas limit Pods and
	// do not count NodeWorkloads.
	IgnoreResourceQuotas bool
	// Reserve makes Pods reserve what NodeWorkloads request.
	Reserve bool
	// Load bounds what the manager does at a time.
	Load Load
	// Webhook are the settings of the webhook that answers when a ManagedWorkload is applied.
	Webhook webhook.Options
	// Subresources are the settings of the aggregated API, through which shims get objects and tokens.
	Subresources subresources.Options
}

// Load bounds what the manager does at a time.
type Load struct {
	// QPS and Burst bound the requests to the API server, per second and at once.
	QPS   float32
	Burst int
	// ConcurrentReconciles is how many ManagedWorkloads, and how many NodeWorkloads, are
	// looked at at the same time.
	ConcurrentReconciles int
}

// DefaultLoad is that of 1,000 nodes.
var DefaultLoad = Load{QPS: 100, Burst: 200, ConcurrentReconciles: 4}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Shared.AddFlags(fs, ":8080", ":8081")
	fs.BoolVar(&o.IgnoreResourceQuotas, "ignore-resource-quotas", false,
		"Keep to no ResourceQuota that limits Pods, and accept templates in its namespace although none counts nodeworkloads.managedworkload.dev")
	fs.BoolVar(&o.Reserve, "reserve", true,
		"Have the Pods of the DaemonSet managedworkload-reserved request what the NodeWorkloads of their nodes request")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one of several managers act at a time")
	fs.Float32Var(&o.Load.QPS, "kube-api-qps", DefaultLoad.QPS, "Requests to the API server a second")
	fs.IntVar(&o.Load.Burst, "kube-api-burst", DefaultLoad.Burst, "Requests to the API server at once")
	fs.IntVar(&o.Load.ConcurrentReconciles, "concurrent-reconciles", DefaultLoad.ConcurrentReconciles, "ManagedWorkloads, and NodeWorkloads, that are looked at at the same time")
	o.Webhook.AddFlags(fs)
	o.Subresources.AddFlags(fs)
}

// Validate returns an error that names the flag whose value cannot work.
func (o *Options) Validate() error {
	return errors.Join(o.Shared.Validate(), o.Load.validate(), o.Webhook.Validate(), o.Subresources.Validate())
}

func (l *Load) validate() error {
	var errs []error
	if l.QPS <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps %g is not above 0", l.QPS))
	}
	if l.Burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst %d is not above 0", l.Burst))
	}
	if l.ConcurrentReconciles < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-reconciles %d is not above 0", l.ConcurrentReconciles))
	}
	return errors.Join(errs...)
}
