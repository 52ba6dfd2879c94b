// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// The same beside a real API server: both are deleted at once, and the node gets
// no second NodeWorkload.
func TestBothAreDeletedAtOnce(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	for range 5 {
		mw := c.workload()
		await(c, mw, "Ready", readyOn(1))
		w, err := api.Watch(t.Context(), &v1alpha1.NodeWorkloadList{}, client.InNamespace(c.namespace))
		c.must(err)
		c.must(api.Delete(t.Context(), c.nodeWorkload(n1)))
		c.must(api.Delete(t.Context(), mw))
		c.awaitGone(mw)
		uids := map[types.UID]bool{}
		for gone := false; !gone; {
			e := <-w.ResultChan()
			nw, ok := e.Object.(*v1alpha1.NodeWorkload)
			if !ok {
				t.Fatalf("watch: %v", e.Object)
			}
			uids[nw.UID] = true
			gone = e.Type == watch.Deleted
		}
		w.Stop()
		list := &v1alpha1.NodeWorkloadList{}
		c.must(api.List(t.Context(), list, client.InNamespace(c.namespace)))
		if len(uids) != 1 || len(list.Items) != 0 {
			t.Fatalf("%d NodeWorkloads were seen, %d are left", len(uids), len(list.Items))
		}
	}
}

func TestRecreatedWhileTheOldOneEnds(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw))
	old := await(c, c.nodeWorkload(n1), "deleted", endsWith(-1))
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Finalizers = nil })
	c.awaitGone(mw)
	next := c.workload()
	notStalled := func(mw *v1alpha1.ManagedWorkload) {
		if managertest.Kstatus(mw) == "Failed" {
			t.Errorf("stalled: %s", managertest.Dump(mw.Status))
		}
	}
	await(c, next, "waiting", func(mw *v1alpha1.ManagedWorkload) bool {
		notStalled(mw)
		return mw.Status.Summary == "updating 0/1"
	})
	shim.setHold(false)
	await(c, next, "Ready", func(mw *v1alpha1.ManagedWorkload) bool {
		notStalled(mw)
		return readyOn(1)(mw)
	})
	nw := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if nw.UID == old.UID || !metav1.IsControlledBy(nw, next) {
		t.Errorf("not the new one's: %s", managertest.Dump(nw))
	}
}
