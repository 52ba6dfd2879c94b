// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// unsafe is an integer that no float is equal to.
const unsafe = int64(1)<<53 + 1

type edit func(*corev1.PodTemplateSpec)

func grace(seconds int64) edit {
	return func(t *corev1.PodTemplateSpec) { t.Spec.TerminationGracePeriodSeconds = &seconds }
}

func group(id int64) edit {
	return func(t *corev1.PodTemplateSpec) { t.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &id} }
}

func memory(amount string) edit {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}
	}
}

func templateOf(edits ...edit) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "c", Image: "image:1", Env: []corev1.EnvVar{{Name: "MINE", Value: "1"}}}},
			Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}},
		},
	}
	template.SetDefaults(t)
	for _, edit := range edits {
		edit(t)
	}
	return t
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A revision gives both templates back as they were, whatever admission changed.
func TestRevisionKeepsBothTemplates(t *testing.T) {
	const nothing, difference, whole = "no patch", "a difference", "all of the user's template"
	for name, tt := range map[string]struct {
		user, admission []edit
		want            string
	}{
		"nothing": {want: nothing},
		"defaults": {admission: []edit{memory("64Mi"), func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{"kubernetes.io/limit-ranger": "LimitRanger plugin set: memory limit for container c"}
		}}, want: difference},
		"another quantity":              {user: []edit{memory("1.5Gi")}, admission: []edit{memory("100M")}, want: difference},
		"a quantity, written otherwise": {user: []edit{memory("1024Mi")}, admission: []edit{memory("1Gi")}, want: nothing},
		"a container": {admission: []edit{func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "d"})
		}}, want: difference},
		"a container, before": {admission: []edit{func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers = append([]corev1.Container{{Name: "d"}}, t.Spec.Containers...)
		}}, want: difference},
		"a variable": {admission: []edit{func(t *corev1.PodTemplateSpec) {
			c := &t.Spec.Containers[0]
			c.Env = append([]corev1.EnvVar{{Name: "INJECTED"}}, c.Env...)
		}}, want: difference},
		"labels": {admission: []edit{func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"x/y~z": "<w>"} }}, want: difference},
		"less":   {admission: []edit{func(t *corev1.PodTemplateSpec) { t.Labels, t.Spec.Tolerations = nil, nil }}, want: difference},
		"something beside a large integer": {
			user: []edit{grace(unsafe)}, admission: []edit{grace(unsafe), memory("64Mi")}, want: difference,
		},
		"a large integer, by one": {user: []edit{grace(unsafe)}, admission: []edit{grace(unsafe - 1)}, want: whole},
		"a large integer, added":  {admission: []edit{group(math.MaxInt64)}, want: difference},
		"a large integer, removed": {
			user: []edit{group(math.MinInt64 + 1)}, admission: []edit{func(t *corev1.PodTemplateSpec) { t.Spec.SecurityContext = nil }}, want: whole,
		},
		"nil labels for empty ones": {
			user:      []edit{func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{} }},
			admission: []edit{func(t *corev1.PodTemplateSpec) { t.Labels = nil }}, want: nothing,
		},
		"nil containers for empty ones": {
			user:      []edit{func(t *corev1.PodTemplateSpec) { t.Spec.Containers = []corev1.Container{} }},
			admission: []edit{func(t *corev1.PodTemplateSpec) { t.Spec.Containers = nil }}, want: difference,
		},
		"empty containers for nil ones": {
			user:      []edit{func(t *corev1.PodTemplateSpec) { t.Spec.Containers = nil }},
			admission: []edit{func(t *corev1.PodTemplateSpec) { t.Spec.Containers = []corev1.Container{} }}, want: difference,
		},
		"a security context for an empty one": {
			user:      []edit{func(t *corev1.PodTemplateSpec) { t.Spec.SecurityContext = &corev1.PodSecurityContext{} }},
			admission: []edit{group(1)}, want: difference,
		},
		"all": {user: []edit{func(t *corev1.PodTemplateSpec) { *t = corev1.PodTemplateSpec{} }}, want: difference},
	} {
		t.Run(name, func(t *testing.T) {
			user, admitted := templateOf(tt.user...), templateOf(tt.admission...)
			spec, err := Spec(user, admitted)
			if err != nil {
				t.Fatal(err)
			}
			kind := difference
			switch {
			case spec.UserPatch == "":
				kind = nothing
			case strings.HasPrefix(spec.UserPatch, `[{"op":"replace","path":"",`):
				kind = whole
			}
			if kind != tt.want {
				t.Errorf("patch %s, want %s", spec.UserPatch, tt.want)
			}
			if diff := cmp.Diff(admitted, &spec.Template); diff != "" {
				t.Errorf("admitted template (-want +got):\n%s", diff)
			}
			stored := v1alpha1.ManagedWorkloadRevisionSpec{}
			if err := json.Unmarshal([]byte(encoded(t, spec)), &stored); err != nil {
				t.Fatal(err)
			}
			got, err := User(&stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(encoded(t, user), encoded(t, got)); diff != "" {
				t.Errorf("the user's template (-want +got):\n%s", diff)
			}
			if template.Hash(got) != template.Hash(user) {
				t.Errorf("the user's template has another hash: %+v", got)
			}
		})
	}
}

// What is made of a template, or of a revision of a cache, is a copy.
func TestTemplatesAreCopies(t *testing.T) {
	admitted := templateOf()
	spec, err := Spec(templateOf(), admitted)
	if err != nil {
		t.Fatal(err)
	}
	user, err := User(&spec)
	if err != nil {
		t.Fatal(err)
	}
	user.Labels["a"], spec.Template.Spec.Containers[0].Image = "users", "revisions"
	if diff := cmp.Diff(templateOf(), admitted); diff != "" {
		t.Errorf("admitted template (-want +got):\n%s", diff)
	}
	if got := spec.Template.Labels["a"]; got != "b" {
		t.Errorf("label %q of the revision", got)
	}
}

// A patch that cannot be applied is an error and never another template, or a panic.
func TestRevisionWithADamagedPatch(t *testing.T) {
	for name, patch := range map[string]string{
		"no JSON":         "x",
		"no list":         `{"spec":null}`,
		"no such path":    `[{"op":"remove","path":"/no/such"}]`,
		"another type":    `[{"op":"replace","path":"/spec","value":1}]`,
		"no object":       `[{"op":"replace","path":"","value":[]}]`,
		"no operation":    `[{"path":"/spec"}]`,
		"a test of all":   `[{"op":"test","path":""}]`,
		"a copy":          `[{"op":"copy","from":"/spec/containers","path":"/spec/initContainers"}]`,
		"a missing value": `[{"op":"add","path":"/spec"},{"op":"remove","path":"/spec/containers"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.ManagedWorkloadRevisionSpec{Template: *templateOf(), UserPatch: patch}
			if got, err := User(&spec); err == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}
