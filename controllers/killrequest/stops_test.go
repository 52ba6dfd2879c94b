// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"testing"

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
	}
	b.stops.note(b.key().NamespacedName, "")
	if left := b.stops.of("default", "web"); len(left) != 0 || len(b.stops.workloads)+len(b.stops.requests) != 0 {
		t.Errorf("remembered: %v", left)
	}
}
