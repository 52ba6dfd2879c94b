// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// run counts how often in a row a probe had the same result. The zero value has
// seen nothing. It belongs to one instance of a container: the kubelet carries the
// count over to the next one, and kills that too early.
type run struct {
	last  plan.ProbeResult
	count int
}

// add takes a result and reports whether it is a verdict: whether it came as often in
// a row as the probe asks for. (prober/worker.go:doProbe)
func (r *run) add(result plan.ProbeResult, probe *corev1.Probe) (verdict bool) {
	if r.last != result {
		r.last, r.count = result, 0
	}
	r.count++
	switch result {
	case plan.ProbeFailure:
		return r.count >= int(probe.FailureThreshold)
	case plan.ProbeSuccess:
		return r.count >= int(probe.SuccessThreshold)
	default: // ProbeUnknown
		return true
	}
}

// ends reports whether a verdict is the last one about this instance of the
// container: it is going to be killed, or it has started.
func (k kind) ends(verdict plan.ProbeResult) bool {
	return k == startup || k == liveness && verdict == plan.ProbeFailure
}
