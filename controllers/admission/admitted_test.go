// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func userTemplate(edits ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: "image:1"}},
			Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}},
		},
	}
	for _, edit := range edits {
		edit(t)
	}
	template.SetDefaults(t)
	return t
}

// A revision gives back what it was made of, whatever admission changed.
func TestRevisionKeepsBothTemplates(t *testing.T) {
	user := userTemplate()
	for name, edit := range map[string]func(*corev1.PodTemplateSpec){
		"nothing": func(*corev1.PodTemplateSpec) {},
		"a container": func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "d"})
		},
		"a container, before": func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append([]corev1.Container{{Name: "d"}}, t.Spec.Containers...)
		},
		"labels": func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"x/y~z": "w"} },
		"less":   func(t *corev1.PodTemplateSpec) { t.Labels, t.Spec.Tolerations = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			admitted := user.DeepCopy()
			edit(admitted)
			patch, err := Patch(user, admitted)
			if err != nil || (patch == "") != (name == "nothing") {
				t.Fatalf("patch %q, error %v", patch, err)
			}
			got, err := Admitted(&v1alpha1.ManagedWorkloadRevision{Spec: v1alpha1.ManagedWorkloadRevisionSpec{Template: *user, AdmittedPatch: patch}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(admitted, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A patch that cannot be read is an error and never another template.
func TestRevisionWithADamagedPatch(t *testing.T) {
	for _, patch := range []string{"x", `[{"op":"remove","path":"/no/such"}]`, `[{"op":"replace","path":"/spec","value":1}]`} {
		r := &v1alpha1.ManagedWorkloadRevision{Spec: v1alpha1.ManagedWorkloadRevisionSpec{Template: *userTemplate(), AdmittedPatch: patch}}
		if got, err := Admitted(r); err == nil {
			t.Errorf("patch %q: %+v", patch, got)
		}
	}
}
