// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

func annotateGrace(value string) func(*v1alpha1.ManagedWorkload) {
	return func(mw *v1alpha1.ManagedWorkload) {
		metav1.SetMetaDataAnnotation(&mw.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriodSeconds, value)
	}
}

func endsWith(grace int64) func(*v1alpha1.NodeWorkload) bool {
	return func(nw *v1alpha1.NodeWorkload) bool {
		return !nw.DeletionTimestamp.IsZero() && ptr.Deref(nw.Spec.DeletionGracePeriodSeconds, -1) == grace
	}
}

func TestDeletionGraceReachesNodeWorkloads(t *testing.T) {
	c := newCluster(t)
	n1, n2 := c.node("n1"), c.node("n2")
	shim := c.shimOn(n1, n2)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(2))
	shim.setHold(true)

	update(c, mw, annotateGrace("20"))
	c.must(api.Delete(t.Context(), mw))
	nw := await(c, c.nodeWorkload(n1), "grace of the annotation", endsWith(20))
	if by := nw.Annotations[v1alpha1.AnnotationRequestedBy]; by != "manager (ManagedWorkload deleted)" {
		t.Errorf("requested by %q", by)
	}
	await(c, mw, "says so", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.Summary == "deleting, 2 nodes left" && managertest.Kstatus(mw) == "Terminating"
	})
	update(c, mw, annotateGrace("3"))
	await(c, c.nodeWorkload(n1), "a shorter one under way", endsWith(3))
	await(c, c.nodeWorkload(n2), "a shorter one under way", endsWith(3))
	update(c, mw, annotateGrace("10")) // too late: it may only shrink
	update(c, mw, annotateGrace("2"))
	await(c, c.nodeWorkload(n1), "a shorter one still", endsWith(2))
	shim.setHold(false)
	c.awaitGone(mw)
}

func TestDeletionGraceIsCapped(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload(annotateGrace("100"), func(mw *v1alpha1.ManagedWorkload) {
		mw.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
	})
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw))
	await(c, c.nodeWorkload(n1), "the template's grace", endsWith(7))
	shim.setHold(false)
	c.awaitGone(mw)
}

func TestBadDeletionGraceIsSaid(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload(annotateGrace("soon"))
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw))
	await(c, mw, "names the annotation", func(mw *v1alpha1.ManagedWorkload) bool {
		c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReconciling)
		return c != nil && strings.Contains(c.Message, `"soon" is not a number of seconds from 0 on; the grace period is 30s`)
	})
	c.awaitEvent(mw, "BadAnnotation", `"soon" is not a number`)
	await(c, c.nodeWorkload(n1), "ends with the template's own", endsWith(-1))
	shim.setHold(false)
	c.awaitGone(mw)
}

func TestOrphanAndAdopt(t *testing.T) {
	c := newCluster(t)
	n1, n2 := c.node("n1"), c.node("n2")
	c.shimOn(n1, n2)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(2))
	c.must(api.Delete(t.Context(), mw, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	c.awaitGone(mw)
	uids := map[string]types.UID{}
	for _, node := range []string{n1, n2} {
		nw := c.nodeWorkload(node)
		c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
		if len(nw.OwnerReferences) != 0 || !nw.DeletionTimestamp.IsZero() {
			t.Fatalf("not orphaned: %s", managertest.Dump(nw))
		}
		uids[node] = nw.UID
	}

	c.updateNode(n2, func(n *corev1.Node) { delete(n.Labels, "test") })
	next := c.workload(func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = "app:2" })
	await(c, next, "Ready", readyOn(1))
	nw := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if nw.UID != uids[n1] || !metav1.IsControlledBy(nw, next) || nw.Spec.Template.Spec.Containers[0].Image != "app:2" {
		t.Errorf("not adopted: %s", managertest.Dump(nw))
	}
	c.awaitEvent(next, "Adopted", nw.Name)
	c.awaitGone(c.nodeWorkload(n2)) // adopted as well, where it is no longer wanted
}

func TestForegroundDeletion(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	c.must(api.Delete(t.Context(), mw, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	c.awaitGone(mw)
	c.awaitGone(c.nodeWorkload(n1))
}

// The finalizer that asks for a garbage collector is honoured although ours is not
// there: the object was deleted before the manager saw it.
func TestForegroundDeletionWithoutOurFinalizer(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	await(c, mw, "Terminating", func(mw *v1alpha1.ManagedWorkload) bool { return managertest.Kstatus(mw) == "Terminating" })
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Finalizers = []string{metav1.FinalizerDeleteDependents} })
	shim.setHold(false)
	c.awaitGone(mw)
	c.awaitGone(c.nodeWorkload(n1))
}

// In a namespace that ends nothing is admitted any more: that refuses no template,
// and what is deleted ends as ever.
func TestNamespaceThatEnds(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	c.must(api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = "app:2" })
	await(c, mw, "waiting", func(mw *v1alpha1.ManagedWorkload) bool {
		if managertest.Kstatus(mw) == "Failed" {
			t.Errorf("stalled: %s", managertest.Dump(mw.Status))
		}
		return hasCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionUnknown, "AdmissionPending")
	})
	nw := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if !nw.DeletionTimestamp.IsZero() || nw.Spec.Template.Spec.Containers[0].Image != "app:1" {
		t.Errorf("the NodeWorkload was touched: %s", managertest.Dump(nw))
	}
	c.must(api.Delete(t.Context(), mw))
	c.awaitGone(mw)
	c.awaitGone(nw)
}

// A node that never had a shim gets nothing before one comes. Where it goes before it took
// anything there is nothing to wait for.
func TestDeletionWithoutAnyShim(t *testing.T) {
	c := newCluster(t)
	n1 := c.nodeWithoutShim("n1")
	mw := c.workload()
	await(c, mw, "says so", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.Summary == "1 node without a shim" && mw.Status.UnreachableNodes == 1 && managertest.Kstatus(mw) == "InProgress"
	})
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c.nodeWorkload(n1)), c.nodeWorkload(n1)); !apierrors.IsNotFound(err) {
		t.Errorf("a NodeWorkload without a shim: %v", err)
	}
	c.must(api.Create(t.Context(), leaseOf(n1)))
	await(c, c.nodeWorkload(n1), "a shim", func(nw *v1alpha1.NodeWorkload) bool { return nw.Spec.NodeName == n1 })
	c.must(api.Delete(t.Context(), leaseOf(n1)))
	await(c, c.nodeWorkload(n1), "ShimNotFound", func(nw *v1alpha1.NodeWorkload) bool {
		return hasCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding, metav1.ConditionFalse, v1alpha1.ReasonShimNotFound)
	})
	await(c, mw, "says so", func(mw *v1alpha1.ManagedWorkload) bool {
		return mw.Status.Summary == "1 node without a shim" && mw.Status.UnreachableNodes == 1 && managertest.Kstatus(mw) == "InProgress"
	})
	c.must(api.Delete(t.Context(), mw))
	c.awaitGone(mw)
}

// What a garbage collector would do when somebody removes the finalizers.
func TestNodeWorkloadsOfAForgottenOwnerEnd(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw))
	await(c, c.nodeWorkload(n1), "deleted", endsWith(-1))
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Finalizers = nil })
	c.awaitGone(mw)
	shim.setHold(false)
	c.awaitGone(c.nodeWorkload(n1))

	lost := c.nodeWorkload(n1)
	lost.Finalizers = []string{v1alpha1.Finalizer}
	lost.OwnerReferences = []metav1.OwnerReference{writes.OwnerReference(mw)}
	lost.Spec = v1alpha1.NodeWorkloadSpec{NodeName: n1, Template: mw.Spec.Template}
	c.must(api.Create(t.Context(), lost))
	c.awaitGone(lost)
}

func TestNodeLoss(t *testing.T) {
	c := newCluster(t)
	dead, alive, back := c.node("dead"), c.node("alive"), c.node("back")
	c.shimOn(dead, alive, back)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(3))
	uids := map[string]types.UID{}
	for _, node := range []string{dead, alive, back} {
		nw := c.nodeWorkload(node)
		c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
		uids[node] = nw.UID
	}
	c.lease(dead, 1)
	c.lease(back, 1)
	for _, node := range []string{dead, alive, back} {
		c.deleteNode(node)
	}
	expired := func(nw *v1alpha1.NodeWorkload) bool {
		return hasCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding, metav1.ConditionFalse, v1alpha1.ReasonLeaseExpired)
	}
	await(c, c.nodeWorkload(back), "its lease has expired", expired)
	c.must(api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: back, Labels: map[string]string{"test": c.namespace}}}))
	c.awaitGone(c.nodeWorkload(dead))
	for _, node := range []string{alive, back} {
		nw := c.nodeWorkload(node)
		c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
		if nw.UID != uids[node] || !nw.DeletionTimestamp.IsZero() {
			t.Errorf("the NodeWorkload of %s was ended: %s", node, managertest.Dump(nw))
		}
	}
	c.lease(back, 3600)
	await(c, c.nodeWorkload(back), "its shim is back", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.UID == uids[back] && hasCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
	})
	await(c, mw, "Ready with what is left", readyOn(1))
}
