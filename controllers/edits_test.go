// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// What the API server answers to a change of a NodeWorkload that the manager knows in part:
// one that has changed meanwhile, or is another one, is a conflict, and a refusal is none.
func TestEditsOfAnObjectKnownInPart(t *testing.T) {
	c := newCluster(t)
	nw := managertest.NodeWorkload("nobody", "")
	nw.Namespace, nw.UID, nw.Spec.Template = c.namespace, "", corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}
	nw.Labels = map[string]string{"a": "b"}
	c.must(api.Create(t.Context(), nw))
	nw = await(c, nw, "judged", func(nw *v1alpha1.NodeWorkload) bool { return len(nw.Status.Conditions) > 0 }) // by the manager
	first := nw.ResourceVersion
	edit := writes.NewEdit(client.ObjectKeyFromObject(nw), nw.UID, nw.ResourceVersion)
	edit.Set(map[string]string{"c/d": "e"}, "metadata", "labels")
	edit.Set([]string{"example.com/a"}, "metadata", "finalizers")
	changed, err := edit.Apply(t.Context(), api)
	c.must(err)
	if diff := cmp.Diff(map[string]string{"c/d": "e"}, changed.Labels); diff != "" || changed.ResourceVersion == first {
		t.Errorf("resourceVersion %s, labels (-want +got):\n%s", changed.ResourceVersion, diff)
	}
	if diff := cmp.Diff(nw.Spec, changed.Spec); diff != "" {
		t.Errorf("the spec has changed (-before +after):\n%s", diff)
	}
	tests := map[string]struct {
		edit *writes.Edit
		do   func(*writes.Edit)
		want func(error) bool
	}{
		"changed since": {writes.NewEdit(client.ObjectKeyFromObject(nw), nw.UID, first), func(e *writes.Edit) { e.Remove("metadata", "labels", "a") }, apierrors.IsConflict},
		"another one":   {writes.NewEdit(client.ObjectKeyFromObject(nw), "other", changed.ResourceVersion), func(e *writes.Edit) { e.Set("x", "metadata", "labels", "a") }, apierrors.IsConflict},
		"gone":          {writes.NewEdit(client.ObjectKey{Namespace: c.namespace, Name: "gone"}, nw.UID, first), func(e *writes.Edit) { e.Set("x", "metadata", "labels", "a") }, apierrors.IsNotFound},
		"not valid": {
			writes.NewEdit(client.ObjectKeyFromObject(nw), nw.UID, changed.ResourceVersion), func(e *writes.Edit) { e.Set(-1, "spec", "deletionGracePeriodSeconds") },
			func(err error) bool { return apierrors.IsInvalid(err) && !apierrors.IsConflict(err) },
		},
		"not the condition that is meant": {
			writes.NewEdit(client.ObjectKeyFromObject(nw), nw.UID, changed.ResourceVersion), func(e *writes.Edit) {
				e.Test(v1alpha1.ConditionReady, "status", "conditions", "0", "type")
				e.Replace(metav1.Condition{}, "status", "conditions", "0")
			}, apierrors.IsConflict,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.do(tc.edit)
			if _, err := tc.edit.Apply(t.Context(), api); !tc.want(err) {
				t.Errorf("error %v", err)
			}
		})
	}
	c.must(api.Patch(t.Context(), changed, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
}
