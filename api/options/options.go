// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Shared are the settings that the manager and the shim both have.
type Shared struct {
	// Kubeconfig is the path of a kubeconfig file; see kubeconfig.Load if empty.
	Kubeconfig string
	// Namespace holds the Leases of the shims and of the leader election.
	Namespace string
	// MetricsBindAddress is where Prometheus metrics are served; "0" is off.
	MetricsBindAddress string
	// HealthProbeBindAddress is where /healthz and /readyz are served; "0" is off.
	HealthProbeBindAddress string
}

// AddFlags binds the settings to flags. The default addresses are given, since both
// programs may run in one network namespace.
func (s *Shared) AddFlags(flags *pflag.FlagSet, metrics, healthProbe string) {
	flags.StringVar(&s.Kubeconfig, "kubeconfig", "",
		"Path to a kubeconfig file; if empty: $KUBECONFIG, then the cluster this process runs in, then ~/.kube/config")
	flags.StringVar(&s.Namespace, "namespace", v1alpha1.DefaultNamespace, "Namespace of the Leases of the shims and of the leader election")
	flags.StringVar(&s.MetricsBindAddress, "metrics-bind-address", metrics,
		`Address of the Prometheus metrics; "0" turns them off. On a loopback address they are served by HTTP without authentication, otherwise by HTTPS to those whom the API server lets get the path`)
	flags.StringVar(&s.HealthProbeBindAddress, "health-probe-bind-address", healthProbe, `Address of /healthz and /readyz; "0" turns them off`)
}

// Validate returns an error that names the flag whose value cannot work.
func (s *Shared) Validate() error {
	if wrong := validation.IsDNS1123Label(s.Namespace); len(wrong) > 0 {
		return fmt.Errorf("--namespace %q is not the name of a namespace: %s", s.Namespace, strings.Join(wrong, "; "))
	}
	return nil
}
