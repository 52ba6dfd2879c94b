// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// A request with a TTL of 0 s may be deleted between the event that says that it has succeeded and
// the read that the event asks for.
func TestAwaitSeesWhatIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kr := &v1alpha1.KillRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "k"}, Status: v1alpha1.KillRequestStatus{Phase: v1alpha1.RequestInProgress}}
		succeeded := kr.DeepCopy()
		succeeded.Status.Phase = v1alpha1.RequestSucceeded
		events := watch.NewFakeWithChanSize(2, false)
		events.Modify(succeeded)
		events.Delete(succeeded)
		reads := 0
		kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(managertest.Scheme(t)).WithObjects(kr).Build(), interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return events, nil
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if reads++; reads > 1 {
					return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("killrequests").GroupResource(), key.Name)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		e := &Env{Kube: kube, Stack: &localstack.Stack{}}
		e.AwaitRequestPhase(t, kr, v1alpha1.RequestSucceeded)
	})
}
