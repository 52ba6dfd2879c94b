// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A node gets the number of a workload's priority class, and keeps it when the class is made again with
// another one. A number that is not that of the class is refused, as in a Pod.
func TestPriorityOfAClass(t *testing.T) {
	c := newCluster(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}, Value: 1000}
	c.must(api.Create(t.Context(), class))
	t.Cleanup(func() { _ = api.Delete(context.Background(), class) })
	n1 := c.node("n1")
	c.shimOn(n1)
	mw := c.workload(func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.PriorityClassName = class.Name })
	has := func(number int32) func(*v1alpha1.NodeWorkload) bool {
		return func(nw *v1alpha1.NodeWorkload) bool {
			spec := &nw.Spec.Template.Spec
			return spec.PriorityClassName == class.Name && spec.Priority != nil && *spec.Priority == number
		}
	}
	first := await(c, c.nodeWorkload(n1), "it has the number of its class", has(1000))

	c.must(api.Delete(t.Context(), class))
	again := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Value: 2000}
	c.must(api.Create(t.Context(), again))
	n2 := c.node("n2")
	c.shimOn(n2)
	await(c, c.nodeWorkload(n2), "a further node gets the same template", has(1000))
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(first), first))
	if first.Generation != 1 {
		t.Errorf("generation %d of a NodeWorkload that nothing changed", first.Generation)
	}
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Containers[0].Image = "app:2" })
	await(c, c.nodeWorkload(n2), "the next template has the number of now", has(2000))

	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Priority = new(int32(1_000_000)) })
	refused := await(c, mw, "refused", func(mw *v1alpha1.ManagedWorkload) bool {
		accepted := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
		return accepted != nil && accepted.Status == metav1.ConditionFalse
	})
	if m := meta.FindStatusCondition(refused.Status.Conditions, v1alpha1.ConditionAccepted).Message; !strings.Contains(m, "integer value of priority") {
		t.Errorf("refused with %q", m)
	}
}
