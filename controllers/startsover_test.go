// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A manager that starts over what runs writes no spec, also where admission would make another template of the
// user's by then: what it admitted once stays.
func TestAManagerThatStartsOverWhatRunsWritesNoSpec(t *testing.T) {
	c := newClusterAlone(t)
	n1, n2 := c.node("n1"), c.node("n2")
	c.shimOn(n1, n2)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(2))

	c.must(stopManager())
	limit := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
	c.must(api.Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{limit}},
	}))
	next, err := startManager(context.WithoutCancel(t.Context())) // for the tests after this one
	c.must(err)
	stopManager = next

	unchanged := func() {
		for _, node := range []string{n1, n2} {
			nw := c.nodeWorkload(node)
			c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
			if limits := nw.Spec.Template.Spec.Containers[0].Resources.Limits; nw.Generation != 1 || len(limits) != 0 {
				t.Fatalf("%s: generation %d, limits %v, want 1 and none", node, nw.Generation, limits)
			}
		}
	}
	await(c, mw, "the next manager has asked admission and looked at all nodes", func(mw *v1alpha1.ManagedWorkload) bool {
		unchanged()
		accepted := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
		return accepted != nil && strings.Contains(accepted.Message, "admission would change the template now; what it admitted stays")
	})
	unchanged()
}
