// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestShared(t *testing.T) {
	tests := map[string]struct {
		args      []string
		want      Shared
		wantError bool
	}{
		"defaults": {want: Shared{Namespace: "managedworkload-system", MetricsBindAddress: ":1", HealthProbeBindAddress: ":2"}},
		"all set": {
			args: []string{"--kubeconfig=k", "--namespace=n", "--metrics-bind-address=0", "--health-probe-bind-address=:3"},
			want: Shared{Kubeconfig: "k", Namespace: "n", MetricsBindAddress: "0", HealthProbeBindAddress: ":3"},
		},
		"no namespace": {
			args:      []string{"--namespace="},
			want:      Shared{MetricsBindAddress: ":1", HealthProbeBindAddress: ":2"},
			wantError: true,
		},
		"no name of a namespace": {
			args:      []string{"--namespace=a/b"},
			want:      Shared{Namespace: "a/b", MetricsBindAddress: ":1", HealthProbeBindAddress: ":2"},
			wantError: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got Shared
			flags := pflag.NewFlagSet("program", pflag.ContinueOnError)
			got.AddFlags(flags, ":1", ":2")
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if err := got.Validate(); (err != nil) != tc.wantError {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}
