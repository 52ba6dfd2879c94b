// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/spf13/pflag"

	"github.com/managedworkload/managedworkload/options"
)

// Options are the settings of the manager.
type Options struct {
	options.Shared
	// LeaderElect lets only one of several managers act.
	LeaderElect bool
	// IgnoreResourceQuotas accepts templates in namespaces whose quotas limit Pods and
	// do not count NodeWorkloads.
	IgnoreResourceQuotas bool
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Shared.AddFlags(fs, ":8080", ":8081")
	fs.BoolVar(&o.IgnoreResourceQuotas, "ignore-resource-quotas", false,
		"Accept templates in namespaces with a ResourceQuota that limits Pods, although none counts nodeworkloads.managedworkload.dev")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one of several managers act at a time")
}
