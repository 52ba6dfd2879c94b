// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A refusal is looked at again, ever more rarely, as what refuses may change without a word. What is
// accepted is not asked about again, unless it is another template, or another object of the name.
func TestVerdictIsRemembered(t *testing.T) {
	asked, refuse := 0, true
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked++
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("violates PodSecurity"))
			}
			return nil
		},
	}).Build()
	j, now := NewJudge(c, Options{}), time.Now()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", Generation: 1}}
	mw.Spec.Template = *userTemplate()
	expect := func(what string, after time.Duration, wantAsked int, wantAccepted bool, wantRecheck time.Duration) {
		t.Helper()
		now, asked = now.Add(after), 0
		v, err := j.Verdict(t.Context(), Question{Workload: mw, Template: &mw.Spec.Template, Now: now})
		recheck := time.Duration(0)
		if !v.Recheck.IsZero() {
			recheck = v.Recheck.Sub(now)
		}
		if err != nil || asked != wantAsked || v.Accepted != wantAccepted || recheck != wantRecheck {
			t.Errorf("%s: asked %d times, accepted: %t, again after %s, error %v", what, asked, v.Accepted, recheck, err)
		}
	}
	expect("refused", 0, 1, false, 2*time.Second)
	expect("not due yet", time.Second, 0, false, time.Second)
	expect("due", time.Second, 1, false, 4*time.Second)
	for _, next := range []time.Duration{8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		expect("due again", time.Minute, 1, false, next)
	}
	refuse = false
	expect("the namespace lets it pass", time.Minute, 1, true, 0)
	refuse = true
	expect("accepted", time.Hour, 0, true, 0)
	mw.UID = "made-again"
	expect("made again under its name", 0, 1, false, 2*time.Second)
	refuse, mw.Generation = false, 2
	expect("another template", 0, 1, true, 0)
	refuse = true
	j.Forget(client.ObjectKeyFromObject(mw))
	expect("forgotten", 0, 1, false, 2*time.Second)
}

// A namespace that is being deleted refuses every Pod: that says nothing about the template.
func TestNamespaceThatEnds(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("namespace ns is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
			return err
		},
	}).Build()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	mw.Spec.Template = *userTemplate()
	if v, err := NewJudge(c, Options{}).Verdict(t.Context(), Question{Workload: mw, Template: &mw.Spec.Template, Now: time.Now()}); err == nil {
		t.Errorf("verdict %+v, want an error", v)
	}
}
