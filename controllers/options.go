// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/managedworkload/managedworkload/controllers/webhook"
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
	// Webhook are the settings of the webhook that answers when a ManagedWorkload is applied.
	Webhook webhook.Options
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Shared.AddFlags(fs, ":8080", ":8081")
	fs.BoolVar(&o.IgnoreResourceQuotas, "ignore-resource-quotas", false,
		"Accept templates in namespaces with a ResourceQuota that limits Pods, although none counts nodeworkloads.managedworkload.dev")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one of several managers act at a time")
	o.Webhook.AddFlags(fs)
}

// Validate returns an error that names the flag whose value cannot work.
func (o *Options) Validate() error {
	return errors.Join(o.Shared.Validate(), o.Webhook.Validate())
}
