// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag that the manager and the shim both have means the same to both.
func TestFlagsOfManagerAndShim(t *testing.T) {
	managerFlags, shimFlags := managerCommand().Flags(), shimCommand().Flags()
	shared := map[string]bool{}
	managerFlags.VisitAll(func(flag *pflag.Flag) {
		other := shimFlags.Lookup(flag.Name)
		if other == nil {
			return
		}
		shared[flag.Name] = true
		if flag.Usage != other.Usage || flag.Value.Type() != other.Value.Type() {
			t.Errorf("--%s of the manager: %s (%s)\nof the shim: %s (%s)",
				flag.Name, flag.Usage, flag.Value.Type(), other.Usage, other.Value.Type())
		}
	})
	for _, name := range []string{"kubeconfig", "namespace", "metrics-bind-address", "health-probe-bind-address", "zap-log-level"} {
		if !shared[name] {
			t.Errorf("--%s is not a flag of both", name)
		}
	}
}

func TestFlagHelp(t *testing.T) {
	for _, command := range []func() *cobra.Command{managerCommand, shimCommand, planCommand} {
		cmd := command()
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if usage := []rune(flag.Usage); len(usage) == 0 || unicode.IsLower(usage[0]) {
				t.Errorf("%s --%s: help %q does not begin with a capital", cmd.Name(), flag.Name, flag.Usage)
			}
		})
	}
}
