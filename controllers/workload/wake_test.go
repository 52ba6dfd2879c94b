// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// What a reconciliation asks for at a time is not lost by its error, whose back-off may be
// longer. What has no time of its own waits for the back-off.
func TestAnErrorKeepsTheWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		b := newFleet(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
			if _, isShare := obj.(*v1alpha1.NodeWorkload); isShare {
				return failure
			}
			return nil
		}})
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
			image("app:9")(spec)
			spec.ProgressDeadlineSeconds = new(int32(20))
		})
		b.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer b.queue.ShutDown()
		failure = errors.New("boom")
		if _, _, err := b.reconcile(); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if n := b.queue.Len(); n != 0 {
			t.Errorf("%d requests before the deadline", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := b.queue.Len(); n != 1 {
			t.Errorf("%d requests at the deadline, want 1", n)
		}
	})
}
