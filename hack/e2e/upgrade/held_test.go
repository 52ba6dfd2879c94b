// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// wantHeldBack wants changes that were held back to be so, until they may be made.
func wantHeldBack(t *testing.T, paused, waits *harness.Workload, held map[string]picture) {
	t.Helper()
	if diff := cmp.Diff(held, takeAll(t, map[string]*harness.Workload{"paused": paused, "waiting": waits})); diff != "" {
		t.Errorf("changes that were held back (-before +after):\n%s", diff)
	}
	paused.ChangeObject(func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Paused = false })
	paused.AwaitTrigger("main", v1alpha1.TriggerDefinitionChanged)
	paused.AwaitReady()
	waits.ApplyTemplate(onFirst(waits, oneContainer))
	waits.Await("the change is taken back", func(nw *v1alpha1.NodeWorkload) bool { return !updateWaiting(nw) })
	if diff := cmp.Diff(held["waiting"].PIDs, waits.Processes()); diff != "" {
		t.Errorf("a change that was taken back (-before +after):\n%s", diff)
	}
}
