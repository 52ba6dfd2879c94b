// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Who waits for a quota is woken when it may have room: a NodeWorkload of whatever workload ends
// or goes, or the quota changes. Who does not wait is not.
func TestRoomWakes(t *testing.T) {
	t.Parallel()
	b := inQuota(t, teamQuota("0"), interceptor.Funcs{})
	b.turn()
	b.turn()
	b.turn()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	// As if another workload had them.
	for i := range list.Items {
		list.Items[i].OwnerReferences, list.Items[i].Labels = nil, nil
	}
	b.fleet.Shares.Reset(list)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	b.watchShares(q)
	woken := func(what string, want int, change func()) {
		t.Helper()
		change()
		if got := q.Len(); got != want {
			t.Errorf("%s: %d are woken, want %d", what, got, want)
		}
		for q.Len() > 0 {
			request, _ := q.Get()
			q.Done(request)
		}
	}
	woken("a NodeWorkload waits", 0, func() { list.Items[0].Status.Phase = corev1.PodPending; b.fleet.Shares.Observe(&list.Items[0]) })
	woken("a NodeWorkload has ended", 1, func() { list.Items[0].Status.Phase = corev1.PodSucceeded; b.fleet.Shares.Observe(&list.Items[0]) })
	woken("that one is gone", 0, func() { b.fleet.Shares.Gone(&list.Items[0]) })
	woken("a NodeWorkload is gone", 1, func() { b.fleet.Shares.Gone(&list.Items[1]) })
	raised := teamQuota("0")
	hardCPU("2")(raised)
	for what, tt := range map[string]struct {
		now  *corev1.ResourceQuota
		want int
	}{"the quota is raised": {raised, 1}, "a Pod is gone": {teamQuota("-1"), 1}, "a Pod is new": {teamQuota("1"), 0}} {
		woken(what, tt.want, func() {
			change := event.UpdateEvent{ObjectOld: teamQuota("0"), ObjectNew: tt.now}
			if quotaMadeRoom().Update(change) {
				b.watchQuotas().Update(t.Context(), change, q)
			}
		})
	}
	woken("the quota of another namespace is gone", 0, func() {
		other := teamQuota("0")
		other.Namespace = "other"
		b.watchQuotas().Delete(t.Context(), event.DeleteEvent{Object: other}, q)
	})
	b.forget(types.NamespacedName{Namespace: "default", Name: "web"})
	woken("a NodeWorkload is gone, and nobody waits", 0, func() { b.fleet.Shares.Gone(&list.Items[2]) })
}
