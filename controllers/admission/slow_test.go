// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fair"
)

// tenants are namespaces whose templates workers ask about, as the manager does.
type tenants struct {
	judge *Judge
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// takes is how long admission takes in the namespace "tenant": from webhookTimeout on it fails.
	takes    atomic.Int64
	mu       sync.Mutex
	accepted map[string]int
	errs     int
}

const webhookTimeout = 10 * time.Second

func newTenants() *tenants {
	w := &tenants{accepted: map[string]int{}}
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}},
	).WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		takes := time.Duration(0)
		if o.GetNamespace() == "tenant" {
			takes = time.Duration(w.takes.Load())
		}
		time.Sleep(takes)
		if takes >= webhookTimeout {
			return apierrors.NewInternalError(errors.New("the webhook does not answer"))
		}
		return nil
	}}).Build()
	w.judge = NewJudge(c, Options{})
	w.queue = fair.NewQueue("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute))
	return w
}

func (w *tenants) work() {
	for {
		item, down := w.queue.Get()
		if down {
			return
		}
		mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, Name: item.Name, UID: types.UID(item.String())}}
		mw.Spec.Template = *userTemplate()
		v, err := w.judge.Verdict(context.Background(), Question{Workload: mw, Template: &mw.Spec.Template, Now: time.Now()})
		w.mu.Lock()
		switch {
		case err != nil:
			w.errs++
			w.queue.AddRateLimited(item)
		case v.Accepted:
			w.accepted[item.Namespace]++
		}
		w.mu.Unlock()
		w.queue.Done(item)
	}
}

func (w *tenants) count(namespace string) (accepted, errs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted[namespace], w.errs
}

// A namespace whose admission does not answer about 200 new templates leaves the workers to other
// namespaces but for one. When it answers again, all its templates are accepted.
func TestSlowAdmissionOfOneNamespaceKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants()
		w.takes.Store(int64(webhookTimeout))
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(w.work)
		}
		defer workers.Wait()
		defer w.queue.ShutDown()
		for i := range 200 {
			w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(i)}})
		}
		time.Sleep(time.Minute + webhookTimeout/2)
		for i := range 20 {
			w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "victim", Name: fmt.Sprint(i)}})
			synctest.Wait()
			if accepted, _ := w.count("victim"); accepted != i+1 {
				t.Fatalf("%d templates of the other namespace are accepted at once, want %d", accepted, i+1)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		w.takes.Store(0)
		time.Sleep(webhookTimeout + time.Minute)
		if accepted, _ := w.count("tenant"); accepted != 200 {
			t.Errorf("%d templates are accepted a minute after the webhook answers again, want 200", accepted)
		}
		if left := len(w.judge.namespaces.known); left != 0 {
			t.Errorf("%d namespaces are remembered after quick answers", left)
		}
	})
}

// Where admission answers within a second, a namespace has as many questions under way as there are workers.
func TestQuickAdmissionIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTenants()
		w.takes.Store(int64(100 * time.Millisecond))
		for i := range 40 {
			w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint(i)}})
		}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(w.work)
		}
		time.Sleep(time.Second + 10*time.Millisecond)
		if accepted, errs := w.count("tenant"); accepted != 40 || errs != 0 {
			t.Errorf("%d of 40 templates are accepted after 10 answers for each of 4 workers, %d errors", accepted, errs)
		}
		w.queue.ShutDown()
		workers.Wait()
	})
}
