// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A change of a NodeWorkload that is known in part leaves the rest as it is, whatever it has.
func TestEditsLeaveTheRest(t *testing.T) {
	const ours, other = v1alpha1.Finalizer, "example.com/other"
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(0, 0)}
	}
	judged := condition(v1alpha1.ConditionShimResponding, "Judged")
	type edit func(*Share, *writes.Edit)
	annotate := func(s *Share, e *writes.Edit) { s.Annotate(e, "managedworkload.dev/a", "b") }
	drop := func(s *Share, e *writes.Edit) { s.DropFinalizer(e) }
	tests := map[string]struct {
		before, want metav1.ObjectMeta
		edit         edit
	}{
		"the first annotation": {
			want: metav1.ObjectMeta{Annotations: map[string]string{"managedworkload.dev/a": "b"}}, edit: annotate,
		},
		"one more annotation": {
			before: metav1.ObjectMeta{Annotations: map[string]string{"c": "d"}},
			want:   metav1.ObjectMeta{Annotations: map[string]string{"c": "d", "managedworkload.dev/a": "b"}}, edit: annotate,
		},
		"the first finalizer":         {want: metav1.ObjectMeta{Finalizers: []string{ours}}, edit: (*Share).KeepFinalizer},
		"one more finalizer":          {before: metav1.ObjectMeta{Finalizers: []string{other}}, want: metav1.ObjectMeta{Finalizers: []string{other, ours}}, edit: (*Share).KeepFinalizer},
		"the finalizer is there":      {before: metav1.ObjectMeta{Finalizers: []string{ours}}, want: metav1.ObjectMeta{Finalizers: []string{ours}}, edit: (*Share).KeepFinalizer},
		"the last finalizer goes":     {before: metav1.ObjectMeta{Finalizers: []string{ours}}, edit: drop},
		"one of two finalizers goes":  {before: metav1.ObjectMeta{Finalizers: []string{other, ours}}, want: metav1.ObjectMeta{Finalizers: []string{other}}, edit: drop},
		"a finalizer of others stays": {before: metav1.ObjectMeta{Finalizers: []string{other}}, want: metav1.ObjectMeta{Finalizers: []string{other}}, edit: drop},
	}
	only := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Namespace", "Name", "UID", "ResourceVersion")
	begin := func(t *testing.T, change func(*v1alpha1.NodeWorkload)) (client.Client, *Share) {
		t.Helper()
		nw := managertest.NodeWorkload("n1", "")
		nw.Namespace = "default"
		change(nw)
		c := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(nw).WithStatusSubresource(nw).Build()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
			t.Fatal(err)
		}
		return c, ShareOf(nw, nil)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, share := begin(t, func(nw *v1alpha1.NodeWorkload) {
				nw.Annotations, nw.Finalizers = tc.before.Annotations, tc.before.Finalizers
			})
			e := share.Edit()
			tc.edit(share, e)
			got, err := e.Apply(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.ObjectMeta, only, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
	ready := condition(v1alpha1.ConditionReady, "Ready")
	for name, tc := range map[string]struct{ before, want []metav1.Condition }{
		"the first condition":     {nil, []metav1.Condition{judged}},
		"one more condition":      {[]metav1.Condition{ready}, []metav1.Condition{ready, judged}},
		"the condition is there":  {[]metav1.Condition{condition(judged.Type, "Old"), ready}, []metav1.Condition{judged, ready}},
		"it stands behind others": {[]metav1.Condition{ready, condition(judged.Type, "Old")}, []metav1.Condition{ready, judged}},
	} {
		t.Run(name, func(t *testing.T) {
			c, share := begin(t, func(nw *v1alpha1.NodeWorkload) { nw.Status.Conditions, nw.Status.Restarts = tc.before, 7 })
			got, err := share.shimEdit(judged).ApplyStatus(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Status.Conditions); diff != "" || got.Status.Restarts != 7 {
				t.Errorf("%d restarts, conditions (-want +got):\n%s", got.Status.Restarts, diff)
			}
		})
	}
}
