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
}

// AddFlags binds the options to flags and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Shared.AddFlags(fs, ":8080", ":8081")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one of several managers act at a time")
}
