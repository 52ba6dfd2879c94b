// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// killsCounted is managedworkload_kills_total, over all labels.
func killsCounted(t *testing.T) (n int) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "managedworkload_kills_total" {
			for _, m := range family.Metric {
				n += int(m.Counter.GetValue())
			}
		}
	}
	return n
}

// fleetOfOne is one NodeWorkload, which managers and ManagedWorkloads come and go about.
type fleetOfOne struct {
	*bench
	nw     *v1alpha1.NodeWorkload
	before int
}

func newFleetOfOne(t *testing.T) *fleetOfOne {
	time.Sleep(time.Until(managertest.Epoch))
	mw := workloadInMemory()
	mw.CreationTimestamp = metav1.Now()
	f := &fleetOfOne{bench: newBench(t, interceptor.Funcs{}, mw), nw: managertest.NodeWorkload("n1", "mw"), before: killsCounted(t)}
	f.nw.Namespace, f.nw.CreationTimestamp = "default", metav1.Now()
	f.fleet.Kills.Observe(f.nw)
	return f
}

// kill reports one more kill, that ends now.
func (f *fleetOfOne) kill() {
	time.Sleep(time.Second)
	k := managertest.Kill(fmt.Sprint("k", len(f.nw.Status.Kills)), 0, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced)
	k.StartTime, k.FinishTime = metav1.NowMicro(), new(metav1.NowMicro())
	f.nw = f.nw.DeepCopy()
	f.nw.Status.Kills = append([]v1alpha1.KillRecord{k}, f.nw.Status.Kills...)
}

// owned makes the NodeWorkload belong to a ManagedWorkload, or to none.
func (f *fleetOfOne) owned(by types.UID) {
	f.nw = f.nw.DeepCopy()
	f.nw.OwnerReferences = managertest.NodeWorkload("n1", by).OwnerReferences
}

// restart begins another manager.
func (f *fleetOfOne) restart() {
	time.Sleep(10 * time.Minute)
	f.bench = newBenchOf(f.t, f.client)
}

// apply creates the ManagedWorkload once more.
func (f *fleetOfOne) apply(uid types.UID) {
	f.t.Helper()
	mw := workloadInMemory()
	mw.UID, mw.CreationTimestamp = uid, metav1.Now()
	if err := f.client.Create(f.t.Context(), mw); err != nil {
		f.t.Fatal(err)
	}
}

// drop deletes the ManagedWorkload.
func (f *fleetOfOne) drop() {
	f.t.Helper()
	if err := f.client.Delete(f.t.Context(), workloadInMemory()); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.Reconcile(f.t.Context(), request("default", "web")); err != nil {
		f.t.Fatal(err)
	}
}

// see lets the manager see the NodeWorkload and reconcile, and checks what it counts.
func (f *fleetOfOne) see(what string, want, wantShown int, wantForced int32) {
	f.t.Helper()
	f.fleet.Kills.Observe(f.nw)
	time.Sleep(10 * time.Second)
	_, mw, err := f.reconcile()
	if err != nil {
		f.t.Fatal(err)
	}
	if got := killsCounted(f.t) - f.before; got != want || len(mw.Status.RecentKills) != wantShown || mw.Status.ForcedKills != wantForced {
		f.t.Errorf("%s: %d counted by the metric, %d shown, forcedKills %d; want %d, %d, %d",
			what, got, len(mw.Status.RecentKills), mw.Status.ForcedKills, want, wantShown, wantForced)
	}
}

// A kill counts once in managedworkload_kills_total, whoever the NodeWorkload belongs to after
// it. The forcedKills of an object are those since it exists.
func TestAKillCountsOnce(t *testing.T) {
	t.Run("delete --cascade=orphan and apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleetOfOne(t)
			f.kill()
			f.see("a kill", 1, 1, 1)
			f.owned("")
			f.fleet.Kills.Observe(f.nw)
			f.drop()
			f.kill()
			f.fleet.Kills.Observe(f.nw)
			if got := killsCounted(t) - f.before; got != 2 {
				t.Errorf("killed while it belongs to nobody: %d counted, want 2", got)
			}
			f.apply("next")
			f.owned("next")
			f.see("taken over", 2, 2, 0)
			f.kill()
			f.see("one more", 3, 3, 1)
			f.restart()
			f.see("another manager", 3, 3, 1)
		})
	})
	t.Run("the manager restarts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleetOfOne(t)
			f.kill()
			f.see("a kill", 1, 1, 1)
			f.kill()
			f.restart()
			f.see("one that ended while no manager ran", 2, 2, 2)
			f.restart()
			f.see("another manager", 2, 2, 2)
		})
	})
	t.Run("the manager restarts between orphan and apply", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleetOfOne(t)
			f.kill()
			f.see("a kill", 1, 1, 1)
			f.owned("")
			f.fleet.Kills.Observe(f.nw)
			f.drop()
			f.restart()
			f.apply("next")
			f.owned("next")
			f.see("taken over", 1, 1, 0)
		})
	})
	t.Run("orphaned before its kill was written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleetOfOne(t)
			f.kill()
			f.fleet.Kills.Observe(f.nw)
			f.owned("")
			f.fleet.Kills.Observe(f.nw)
			f.drop()
			f.apply("next")
			f.owned("next")
			f.see("taken over", 1, 1, 0)
		})
	})
}
