// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// What a person changes on a NodeWorkload is put back whole, with an event that says
// what and who.
func TestHandEditsArePutBack(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) { mw.Labels = map[string]string{"team": "a"} })
	await(c, mw, "Ready", readyOn(1))
	nw := await(c, c.nodeWorkload(n1), "reported", func(nw *v1alpha1.NodeWorkload) bool { return nw.Status.ObservedGeneration > 0 })
	before := nw.DeepCopy()
	edited := nw.DeepCopy()
	edited.Spec.Template.Spec.Containers[0].Image = "mine:1"
	delete(edited.Labels, v1alpha1.LabelNode)
	delete(edited.Labels, "team")
	c.must(api.Patch(c.ctx, edited, client.MergeFrom(nw), client.FieldOwner("kubectl-edit")))
	got := await(c, c.nodeWorkload(n1), "put back", func(nw *v1alpha1.NodeWorkload) bool {
		return template.Hash(&nw.Spec.Template) == template.Hash(&before.Spec.Template) && maps.Equal(nw.Labels, before.Labels)
	})
	c.awaitEvent(mw, "PutBack", "Put back spec.template, label managedworkload.dev/node, label team of NodeWorkload "+nw.Name+", changed by kubectl-edit")
	if by := got.Annotations[v1alpha1.AnnotationChangedBy]; by != writes.FieldManager {
		t.Errorf("changed by %q", by)
	}
}

// The shims learn who changed the definition last.
func TestChangedBy(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	// One manager: managedFields tell times to the second.
	mw := c.workloadBy("kubectl-client-side-apply")
	await(c, mw, "Ready", readyOn(1))
	changed := mw.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "app:2"
	c.must(api.Patch(c.ctx, changed, client.MergeFrom(mw), client.FieldOwner("kubectl-client-side-apply")))
	await(c, c.nodeWorkload(n1), "told", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Spec.Template.Spec.Containers[0].Image == "app:2" && nw.Annotations[v1alpha1.AnnotationChangedBy] == "kubectl-client-side-apply"
	})
}
