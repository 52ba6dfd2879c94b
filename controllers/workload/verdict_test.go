// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// answering lets the API server answer the question about a Pod.
func answering(answer func() error) interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if _, ok := obj.(*corev1.Pod); ok {
			return answer()
		}
		return c.Create(ctx, obj, opts...)
	}}
}

func TestVerdictsAndFailuresToJudge(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	webhook := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	terminating := apierrors.NewForbidden(pods, "web-n1", errors.New("namespace default is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	const refused, pending, accepted = v1alpha1.ReasonInvalidTemplate, reasonAdmissionPending, v1alpha1.ReasonAccepted
	tests := map[string]struct {
		answer      error
		want        string
		wantMessage string
	}{
		"admitted":                            {want: accepted},
		"invalid":                             {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web-n1", nil), refused, "is invalid"},
		"PodSecurity or a quota":              {apierrors.NewForbidden(pods, "web-n1", errors.New("exceeded quota")), refused, "exceeded quota"},
		"a webhook's denial":                  {webhook(http.StatusForbidden, `admission webhook "x" denied the request: no`), refused, "denied the request: no"},
		"a webhook's denial without a reason": {webhook(http.StatusBadRequest, `admission webhook "x" denied the request: no`), refused, "denied the request: no"},
		"a webhook that takes no dry run":     {apierrors.NewBadRequest(`admission webhook "x" does not support dry run`), refused, "does not support dry run"},
		"a policy's own code":                 {webhook(http.StatusRequestEntityTooLarge, "too much"), refused, "too much"},
		"a webhook that is away":              {apierrors.NewInternalError(errors.New("failed calling webhook")), pending, "failed calling webhook"},
		"an API server that is busy":          {apierrors.NewTooManyRequests("later", 1), pending, "later"},
		"a token that is no longer good":      {apierrors.NewUnauthorized("who"), pending, "who"},
		"a namespace without its account yet": {apierrors.NewForbidden(pods, "web-n1", errors.New(`error looking up service account default/default: serviceaccount "default" not found`)), pending, "error looking up"},
		"an account that is not there":        {apierrors.NewForbidden(pods, "web-n1", errors.New(`error looking up service account default/other: serviceaccount "other" not found`)), refused, "error looking up"},
		"a namespace that ends":               {terminating, pending, "being terminated"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answering(func() error { return tc.answer }), append(nodeInMemory(), workloadInMemory())...)
			_, mw, err := b.reconcile()
			c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionAccepted)
			if c.Reason != tc.want || !strings.Contains(c.Message, tc.wantMessage) || (err != nil) != (tc.want == pending) {
				t.Errorf("Accepted = %s %s: %s (error %v)", c.Status, c.Reason, c.Message, err)
			}
			if stalled := managertest.Kstatus(mw) == "Failed"; stalled != (tc.want == refused) {
				t.Errorf("kstatus = %s", managertest.Kstatus(mw))
			}
		})
	}
}

// What a node runs was accepted: a quota that is full by now makes no failure of a
// workload that runs, also when the manager has just begun.
func TestWhatRunsIsNotJudgedAnew(t *testing.T) {
	asked := 0
	b := newBench(t, answering(func() error {
		asked++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-n1", errors.New("exceeded quota"))
	}), append(nodeInMemory(), workloadInMemory(), runningNodeWorkload("mw"))...)
	_, mw, err := b.reconcile()
	if err != nil || asked != 1 || managertest.Kstatus(mw) != "Current" {
		t.Errorf("error %v, asked %d times, kstatus %s\n%s", err, asked, managertest.Kstatus(mw), managertest.Dump(mw.Status))
	}
	mw.Generation++
	mw.Spec.Template.Spec.Containers[0].Image = "app:3"
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	if _, mw, err = b.reconcile(); err != nil || asked != 2 || managertest.Kstatus(mw) != "Failed" {
		t.Errorf("another template: error %v, asked %d times, kstatus %s\n%s", err, asked, managertest.Kstatus(mw), managertest.Dump(mw.Status))
	}
}
