// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// Nothing is kept of an object in whose place the manager finds another one of its name.
func TestMadeAgainUnderItsName(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
	if _, _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	nw := managertest.NodeWorkload("n9", "mw", managertest.Kill("a", 1, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
	nw.Namespace = "default"
	b.fleet.Kills.Observe(nw)
	b.fleet.Kills.Gone(nw)
	if b.fleet.Shares.RollOut("mw") == nil || b.fleet.Kills.Pending("mw", time.Time{}).Empty() {
		t.Fatal("nothing is known of the first object")
	}
	first := b.workload()
	first.Finalizers = nil
	if err := b.client.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again := workloadInMemory()
	again.UID = "again"
	if err := b.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	if b.fleet.Shares.RollOut("mw") != nil {
		t.Error("the roll-out of the first object is still known")
	}
	if !b.fleet.Kills.Pending("mw", time.Time{}).Empty() {
		t.Error("kills of the first object are still pending")
	}
	if b.fleet.Shares.RollOut("again") == nil {
		t.Error("the roll-out of the second object is not known")
	}
}
