// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// kind is a kind of probe, as the kubelet writes it in events.
type kind string

const (
	liveness  kind = "Liveness"
	readiness kind = "Readiness"
	startup   kind = "Startup"
)

// kinds in the order in which workers are made: what a startup probe says matters
// to the others.
var kinds = [...]kind{startup, readiness, liveness}

// spec is the container's probe of this kind, nil if it has none.
func (k kind) spec(c *corev1.Container) *corev1.Probe {
	switch k {
	case liveness:
		return c.LivenessProbe
	case readiness:
		return c.ReadinessProbe
	default:
		return c.StartupProbe
	}
}

// initial is the verdict before the first one of the probe. (prober/worker.go:
// newWorker)
func (k kind) initial() plan.ProbeResult {
	switch k {
	case liveness:
		return plan.ProbeSuccess
	case readiness:
		return plan.ProbeFailure
	default:
		return plan.ProbeUnknown
	}
}

// of is where the verdict of this kind stands.
func (k kind) of(r *plan.ProbeResults) *plan.ProbeResult {
	switch k {
	case liveness:
		return &r.Liveness
	case readiness:
		return &r.Readiness
	default:
		return &r.Startup
	}
}
