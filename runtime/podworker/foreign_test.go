// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A container in the sandbox that the shim does not manage is reported, is not killed, and does not hold
// up the end of the workload: it goes with the sandbox.
func TestForeignContainerInTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.mu.Lock()
		n.pods["a"].foreign = []plan.ForeignContainer{{ID: "1", Name: "shell", SandboxID: "sandbox-a"}}
		n.mu.Unlock()
		p.Wake("a")
		n.settle(time.Second)
		st := n.published("a")
		if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionForeignContainers); c == nil || len(st.ContainerStatuses) != 1 {
			t.Errorf("condition %+v, containers %+v", c, st.ContainerStatuses)
		}
		n.mu.Lock()
		synced := len(n.synced)
		n.mu.Unlock()
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Second)
		if synced != 1 || !n.did("remove sandbox sandbox-a") || !n.did("release a") {
			t.Errorf("%d plans, then %q", synced, n.log())
		}
	})
}
