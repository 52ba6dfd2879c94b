// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The admitted template names the handler of its runtime class, which nothing but the class
// decides, and has the overhead that admission added. A class that became another one later
// changes nothing, which a condition says.
func TestRuntimeClass(t *testing.T) {
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	overhead := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	c := fake.NewClientBuilder().WithObjects(ns, class).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			pod := o.(*corev1.Pod)
			if pod.Spec.RuntimeClassName != nil {
				pod.Spec.Overhead = overhead
			}
			if pod.Labels["inject"] != "" {
				pod.Annotations = map[string]string{v1alpha1.AnnotationRuntimeHandler: pod.Labels["inject"]}
			}
			return nil
		},
	}).Build()
	now := time.Now()
	verdict := func(edit func(*corev1.PodTemplateSpec)) Verdict {
		t.Helper()
		mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
		mw.Spec.Template = *userTemplate(edit)
		v, err := NewJudge(c, Options{}).Verdict(t.Context(), Question{Workload: mw, Template: &mw.Spec.Template, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	of := func(name string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Spec.RuntimeClassName = &name }
	}

	v := verdict(of("gvisor"))
	if !v.Accepted || v.Admitted.Annotations[v1alpha1.AnnotationRuntimeHandler] != "runsc" || !v.Admitted.Spec.Overhead.Memory().Equal(*overhead.Memory()) {
		t.Fatalf("%+v", v)
	}
	const unknown = `spec.template.spec.runtimeClassName: Not found: "other"`
	if v := verdict(of("other")); v.Accepted || v.Message != unknown {
		t.Errorf("a class that does not exist: %+v", v)
	}
	own := func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{v1alpha1.AnnotationRuntimeHandler: "runsc"}
	}
	const forbidden = "spec.template.metadata.annotations[managedworkload.dev/runtime-handler]: Forbidden: the manager sets it; remove it, and set runtimeClassName"
	if v := verdict(own); v.Accepted || v.Message != forbidden {
		t.Errorf("a handler of the user's: %+v", v)
	}

	injected := func(t *corev1.PodTemplateSpec) { t.Labels = map[string]string{"inject": "runc-debug"} }
	if v := verdict(injected); !v.Accepted || v.Admitted.Annotations[v1alpha1.AnnotationRuntimeHandler] != "" {
		t.Errorf("a handler that admission injected: %+v", v)
	}

	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	again := func(want Answer) {
		t.Helper()
		answer, err := NewJudge(c, Options{}).Again(t.Context(), mw, v.Admitted, true, now)
		answer.Recheck = time.Time{}
		if err != nil || answer != want {
			t.Errorf("%+v, error %v, want %+v", answer, err, want)
		}
	}
	again(Answer{})
	class.Handler = "kata"
	if err := c.Update(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	again(Answer{Changed: true})
	if err := c.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	again(Answer{Refused: `spec.template.spec.runtimeClassName: Not found: "gvisor"`})
}
