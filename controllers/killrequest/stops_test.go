// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A NodeWorkload that comes wakes the requests that stop its workload, and no others, without
// a look at what requests there are: the index waits for that.
func TestNewNodeWorkloadWakesStops(t *testing.T) {
	b := newBench(t, func(s *v1alpha1.KillRequestSpec) { s.Action = v1alpha1.RequestStop })
	b.look()
	b.stops.note(b.key().NamespacedName, "web") // again changes nothing
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	b.client = nil
	b.watchShares(q)
	nw := objectsOf("n1")[0].(*v1alpha1.NodeWorkload)
	nw.OwnerReferences[0].Name = "web"
	b.fleet.Shares.Observe(nw)
	if got, _ := q.Get(); got != b.key() {
		t.Errorf("woke %v", got)
	} else {
		q.Done(got)
	}
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if woken := b.stopsOf(t.Context(), mw); len(woken) != 1 || woken[0] != b.key() {
		t.Errorf("a ManagedWorkload that goes wakes %v", woken)
	}

	b.watchNodes(q)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
	b.fleet.Nodes.Observe("n1", node)
	if got, _ := q.Get(); got != b.key() {
		t.Errorf("a node that has other labels wakes %v", got)
	}
	b.stops.note(b.key().NamespacedName, "")
	if woken := b.stopsOf(t.Context(), mw); len(woken) != 0 {
		t.Errorf("a ManagedWorkload that goes wakes what is over: %v", woken)
	}
	if left := b.stops.of("default", "web"); len(left) != 0 || len(b.stops.workloads)+len(b.stops.requests) != 0 {
		t.Errorf("remembered: %v", left)
	}
}
