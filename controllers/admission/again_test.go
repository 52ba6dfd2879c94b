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

// Before new nodes get an admitted template it is asked about again, once for many nodes,
// and again when the namespace's PodSecurity labels change. The answer never changes it.
func TestAgain(t *testing.T) {
	asked, refuse := 0, false
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	c := fake.NewClientBuilder().WithObjects(ns).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			asked++
			if refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("violates PodSecurity"))
			}
			return nil
		},
	}).Build()
	j := NewJudge(c, false)
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	now := time.Now()
	again := func(after time.Duration, wantAsked int, wantRefused string) {
		t.Helper()
		now, asked = now.Add(after), 0
		refused, recheck, err := j.Again(t.Context(), mw, userTemplate(), now)
		if err != nil || asked != wantAsked || refused != wantRefused || recheck.IsZero() != (refused == "") {
			t.Errorf("asked %d times, %q, looked at again at %v, error %v", asked, refused, recheck, err)
		}
	}
	due := func(want bool) {
		t.Helper()
		if got, err := j.AskAgain(t.Context(), mw, userTemplate()); err != nil || got != want {
			t.Errorf("due %t, error %v, want %t", got, err, want)
		}
	}
	due(false)
	again(0, 1, "")
	again(time.Second, 0, "")
	again(goodFor, 1, "")
	due(false)
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if err := c.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	refuse = true
	due(true)
	const words = `pods "web" is forbidden: violates PodSecurity`
	again(time.Second, 1, words)
	due(true)
	again(time.Second, 0, words)
	refuse = false
	again(lastRecheck, 1, "")
	due(false)
}
