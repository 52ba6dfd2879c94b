// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/quota"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// ofAccount is a template whose containers get tokens of an account and mount a ConfigMap.
func ofAccount(account, configMap, cpu string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ServiceAccountName: account,
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
		}}},
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}},
		}}}}},
	}}
}

// revisionOf is one whose template was admitted as it is.
func revisionOf(owner types.UID, name string, of corev1.PodTemplateSpec) *v1alpha1.ManagedWorkloadRevision {
	return &v1alpha1.ManagedWorkloadRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(owner + "/" + types.UID(name)),
			Labels:          map[string]string{v1alpha1.LabelRevision: template.Hash(&of)},
			OwnerReferences: managertest.NodeWorkload("n1", owner).OwnerReferences,
		},
		Spec: v1alpha1.ManagedWorkloadRevisionSpec{Template: of},
	}
}

// A manager that begins while a change waits knows from its revisions what runs: tokens are renewed, objects
// are watched, and quotas and reservation count it. What a node says counts for nothing else.
func TestWhatRunsIsKnownAfterARestart(t *testing.T) {
	runs, waits, others, edited := ofAccount("a", "c1", "3"), ofAccount("b", "c2", "1"), ofAccount("stolen", "c3", "9"), ofAccount("edited", "c4", "9")
	foreign := revisionOf("other", "foreign", others)
	byHand := revisionOf("mw", "mw-edited", ofAccount("a", "c4", "1"))
	byHand.Spec.Template = edited
	damaged := revisionOf("mw", "mw-damaged", ofAccount("damaged", "c6", "9"))
	damaged.Spec.UserPatch = "["
	reader := fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithIndex(&v1alpha1.ManagedWorkloadRevision{}, controllerField, controllerUID).
		WithObjects(revisionOf("mw", "mw-1", runs), revisionOf("mw", "mw-2", waits), foreign, byHand, damaged).Build()
	for name, tt := range map[string]struct {
		reported corev1.PodTemplateSpec
		accounts []string
		counts   corev1.PodSpec
	}{
		"what ran before":              {runs, []string{"b", "a"}, runs.Spec},
		"what the spec says":           {waits, []string{"b"}, waits.Spec},
		"a revision of another":        {others, []string{"b"}, waits.Spec},
		"a revision edited by hand":    {edited, []string{"b"}, waits.Spec},
		"a revision that is damaged":   {damaged.Spec.Template, []string{"b"}, waits.Spec},
		"something without a revision": {ofAccount("x", "c5", "7"), []string{"b"}, waits.Spec},
	} {
		nw := managertest.NodeWorkload("n1", "mw")
		nw.Namespace, nw.Generation, nw.Spec.Template = "default", 2, waits
		nw.Status.TemplateHash = template.Hash(&tt.reported)
		for how, see := range map[string]func(x *Index){
			"listed":  func(x *Index) { x.Reset(listAt("50", nw)) },
			"watched": func(x *Index) { x.Observe(nw) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				x := newIndex()
				x.lookUpIn(t.Context(), reader)
				see(x)
				var got []string
				for _, of := range x.Tokens("n1", nw.Namespace, nw.Name) {
					got = append(got, of.Account)
				}
				if !slices.Equal(got, tt.accounts) {
					t.Errorf("tokens of %q, want %q", got, tt.accounts)
				}
				s := x.Get(client.ObjectKeyFromObject(nw))
				if want := requested(&tt.counts); s.Amount != want || !s.Usage.Equal(quota.UsageOf(&tt.counts)) {
					t.Errorf("counts %+v, want %+v; of quotas %+v", s.Amount, want, s.Usage)
				}
				if needs := slices.Contains(x.References("n1"), account("default", "a")); needs != slices.Contains(tt.accounts, "a") {
					t.Errorf("watches the account that runs: %t", needs)
				}
			})
		}
	}
}

// What was found stays through changes of the NodeWorkload and another list until it no longer runs.
func TestWhatRunsStaysAfterARestart(t *testing.T) {
	runs, waits := ofAccount("a", "c1", "3"), ofAccount("b", "c2", "1")
	x := newIndex()
	x.lookUpIn(t.Context(), fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).
		WithIndex(&v1alpha1.ManagedWorkloadRevision{}, controllerField, controllerUID).WithObjects(revisionOf("mw", "mw-1", runs)).Build())
	nw := managertest.NodeWorkload("n1", "mw")
	nw.Namespace, nw.Generation, nw.Spec.Template, nw.Status.TemplateHash = "default", 2, waits, template.Hash(&runs)
	x.Reset(listAt("50", nw))
	first := x.Get(client.ObjectKeyFromObject(nw))
	x.Reset(listAt("60", nw))
	nw = nw.DeepCopy()
	nw.Status.Phase = corev1.PodRunning
	x.Observe(nw)
	if s := x.Get(client.ObjectKeyFromObject(nw)); len(s.Earlier) != 1 || s.Earlier[0] != first.Earlier[0] || s.Amount != first.Amount {
		t.Errorf("later: %+v, want %+v", s, first)
	}
	x.Observe(runningNow(nw.DeepCopy()))
	if s := x.Get(client.ObjectKeyFromObject(nw)); len(s.Earlier) != 0 || s.Amount != requested(&waits.Spec) {
		t.Errorf("the change runs: %+v", s)
	}
}
