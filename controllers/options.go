// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/kubeconfig"
)

// Options are the settings of the manager.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file; see kubeconfig.Load if empty.
	Kubeconfig string
	// MetricsBindAddress is where Prometheus metrics are served; "0" is off.
	MetricsBindAddress string
	// HealthProbeBindAddress is where /healthz and /readyz are served; "0" is off.
	HealthProbeBindAddress string
	// LeaderElect lets only one of several managers act.
	LeaderElect bool
	// Namespace holds the Leases of the shims and of the leader election.
	Namespace string
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	kubeconfig.AddFlag(fs, &o.Kubeconfig)
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", `Address of the Prometheus metrics; "0" turns them off`)
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", `Address of /healthz and /readyz; "0" turns them off`)
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one of several managers act at a time")
	fs.StringVar(&o.Namespace, "namespace", v1alpha1.DefaultNamespace, "Namespace of the Leases of the shims and of the leader election")
}

// validate tells what cannot work.
func (o *Options) validate() error {
	if o.Namespace == "" {
		return errors.New("--namespace may not be empty")
	}
	return nil
}
