// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A review has all reasons of the table and of Pod validation, by the paths of the
// template, or the first refusal of admission; and what is ignored.
func TestReview(t *testing.T) {
	invalid := func(o client.Object) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, o.GetName(), field.ErrorList{
			field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), ""),
			field.Forbidden(field.NewPath("spec", "volumes").Index(0).Child("persistentVolumeClaim"), "said by the Pod "+o.GetName()),
		})
	}
	forbidden := func(o client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("violates PodSecurity"))
	}
	noAccount := func(o client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New(`error looking up service account ns/default: serviceaccount "default" not found`))
	}
	otherAccount := func(o client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New(`error looking up service account ns/builder: serviceaccount "builder" not found`))
	}
	inject := func(o client.Object) error {
		o.(*corev1.Pod).Spec.Volumes = append(o.(*corev1.Pod).Spec.Volumes, claim)
		return nil
	}
	admit := func(client.Object) error { return nil }
	away := func(client.Object) error { return apierrors.NewTimeoutError("too slow", 1) }
	tests := map[string]struct {
		options   Options
		change    func(*v1alpha1.ManagedWorkload)
		answer    func(client.Object) error
		want      []string
		warnings  []string
		wantError bool
	}{
		"admitted": {answer: admit},
		"without the component objects": {
			options: Options{NoTokens: true}, answer: admit,
			warnings: []string{"no service account token is mounted and image pull secrets of the ServiceAccount are not used: the component objects is not installed"},
		},
		"a token without the component objects": {
			options: Options{NoTokens: true}, answer: admit,
			change:   func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.AutomountServiceAccountToken = ptr.To(true) },
			want:     []string{"spec.template.spec.automountServiceAccountToken: Forbidden: the component objects is not installed"},
			warnings: []string{"image pull secrets of the ServiceAccount are not used: the component objects is not installed"},
		},
		"a stop signal that an API server drops unread while its gate is off": {
			change: func(mw *v1alpha1.ManagedWorkload) {
				mw.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To[corev1.Signal]("SIGTREM")}
			},
			answer: func(o client.Object) error {
				o.(*corev1.Pod).Spec.Containers[0].Lifecycle = nil
				return nil
			},
			want: []string{"spec.template.spec.containers[0].lifecycle.stopSignal: " +
				field.NotSupported(nil, corev1.Signal("SIGTREM"), template.StopSignals()).ErrorBody()},
		},
		"refused by the table and by validation": {
			change: func(mw *v1alpha1.ManagedWorkload) {
				mw.Spec.Template.Spec.Volumes = []corev1.Volume{claim}
				mw.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1)
			},
			answer: invalid,
			want: []string{
				"spec.template.spec.volumes[0].persistentVolumeClaim",
				"spec.template.spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
				"spec.template.spec.containers[0].image: Required value",
			},
		},
		"refused by admission":                   {answer: forbidden, want: []string{`spec.template: pods "web" is forbidden: violates PodSecurity`}},
		"in a namespace without its account yet": {answer: noAccount, warnings: []string{`pods "web" is forbidden: error looking up service account ns/default: serviceaccount "default" not found`}},
		"before its account, of one apply":       {answer: otherAccount, warnings: []string{`pods "web" is forbidden: error looking up service account ns/builder: serviceaccount "builder" not found`}},
		"injected by admission":                  {answer: inject, want: []string{"spec.template: injected by admission: spec.template.spec.volumes[0].persistentVolumeClaim"}},
		"ignored": {
			change: func(mw *v1alpha1.ManagedWorkload) {
				mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}
				mw.Spec.Template.Spec.SchedulerName = "other"
			},
			answer: admit,
			warnings: []string{
				"spec.template.spec.schedulerName is ignored",
				"annotation managedworkload.dev/deletion-grace-period-seconds",
			},
		},
		"admission does not answer": {
			change:    func(mw *v1alpha1.ManagedWorkload) { mw.Spec.Template.Spec.Volumes = []corev1.Volume{claim} },
			answer:    away,
			want:      []string{"spec.template.spec.volumes[0].persistentVolumeClaim"},
			wantError: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					return tt.answer(o)
				},
			}).Build()
			mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
			mw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
			if tt.change != nil {
				tt.change(mw)
			}
			review, err := NewJudge(c, tt.options).Review(t.Context(), mw)
			if (err != nil) != tt.wantError {
				t.Errorf("error %v, want one: %t", err, tt.wantError)
			}
			var got []string
			for _, cause := range review.Causes {
				got = append(got, cause.Field+": "+cause.Message)
			}
			beginLike(t, "cause", got, tt.want)
			beginLike(t, "warning", review.Warnings, tt.warnings)
		})
	}
}

var claim = corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
	PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
}}

func beginLike(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%ss %q, want %q", what, got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s %q, want %q", what, got[i], want[i])
		}
	}
}

func TestDeletionGrace(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        *int64
		wantProblem bool
	}{
		"none":        {},
		"seconds":     {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "7"}, want: ptr.To[int64](7)},
		"zero":        {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "0"}, want: ptr.To[int64](0)},
		"negative":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "-1"}, wantProblem: true},
		"a duration":  {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}, wantProblem: true},
		"empty":       {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: ""}, wantProblem: true},
		"enormous":    {annotations: map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "99999999999999999999"}, wantProblem: true},
		"another one": {annotations: map[string]string{"example.com/grace": "7"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, problem := DeletionGrace(tc.annotations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("seconds (-want +got):\n%s", diff)
			}
			if (problem != "") != tc.wantProblem {
				t.Errorf("problem = %q, want one: %v", problem, tc.wantProblem)
			}
			if tc.wantProblem && !strings.Contains(problem, v1alpha1.AnnotationDeletionGracePeriodSeconds) {
				t.Errorf("problem %q does not name the annotation", problem)
			}
		})
	}
}
