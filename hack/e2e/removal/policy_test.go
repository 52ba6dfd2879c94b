// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// While the policies are not enforced a shim starts nothing new and keeps what runs; it
// notices when they are.
func TestPoliciesTakenAway(t *testing.T) {
	w := env.Apply(t, plain)
	restore(t)
	before := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	kubectl(t, "delete", "validatingadmissionpolicybinding", "managedworkload-nodeworkloads")
	eventually(t, "the API server enforces nothing", func() bool {
		_, err := env.Stack.Kubectl(t.Context(), "patch", "nw", w.Node().Name, "-n", w.Namespace, "--dry-run=server", "--type=merge",
			"--as=system:serviceaccount:managedworkload-system:managedworkload-shim", "-p", `{"metadata":{"labels":{"a":"b"}}}`)
		return err == nil
	})
	if err := env.Stack.Shim.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Await("the shim says that the policies are not enforced", notEnforced)
	late := env.Apply(t, plain)
	late.Await("the new one says so, too", notEnforced)
	if n := containers(t, late.Namespace); n != 0 {
		t.Errorf("%d containers were started", n)
	}
	kubectl(t, "apply", "-k", config())
	late.AwaitReady()
	if now := w.AwaitReady().Status.ContainerStatuses[0].ContainerID; now != before {
		t.Errorf("container %s, want %s as before", now, before)
	}
}

// notEnforced reports that the shim says so.
func notEnforced(nw *v1alpha1.NodeWorkload) bool {
	c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionRuntimeUsable)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonPolicyNotEnforced
}
