// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// startable reports whether the node lets something of pod be started.
func (d desired) startable() bool { return d.held == "" && d.denied == nil }

// denied is why the node does not admit a pod. What ran before is admitted.
// (kubelet kubelet.go:HandlePodAdditions, canAdmitPod)
func (s *syncer) denied(d desired, observed *plan.PodStatus) *plan.Refusal {
	if len(observed.Containers) > 0 || len(observed.Sandboxes) > 0 || s.mem.templateHash() != "" {
		return nil
	}
	return s.cfg.Admit(d.pod)
}
