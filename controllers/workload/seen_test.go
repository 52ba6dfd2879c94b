// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// countingReader counts the lists of NodeWorkloads. They have the resourceVersion, if there is one.
type countingReader struct {
	client.Reader
	lists   *int
	version string
}

func (r countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Reader.List(ctx, list, opts...)
	if _, ok := list.(*v1alpha1.NodeWorkloadList); ok {
		*r.lists++
		if r.version != "" {
			list.SetResourceVersion(r.version)
		}
	}
	return err
}

// What was written is waited for, but not for ever: then the API server is read.
func TestWhatWasWrittenIsSeenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
		b.blind = true
		b.live = countingReader{b.live, &lists, ""}
		if _, mw, err := b.reconcile(); err != nil || mw.Status.DesiredNodes != 1 {
			t.Fatalf("%v, %+v", err, mw.Status)
		}
		if nw := b.nodeWorkload(); nw == nil {
			t.Fatal("no NodeWorkload")
		}
		for range 3 {
			time.Sleep(time.Second)
			if res, _, err := b.reconcile(); err != nil || res.RequeueAfter != seenRetry || lists != 0 {
				t.Errorf("while the watch is behind: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
			}
		}
		time.Sleep(listPatience)
		if res, _, err := b.reconcile(); err != nil || res.RequeueAfter == seenRetry || lists != 1 {
			t.Errorf("when it was behind for long: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
		}
		b.blind = false
		if res, _, err := b.reconcile(); err != nil || res.RequeueAfter == seenRetry || lists != 1 {
			t.Errorf("when the watch is back: %v, again after %s, %d live lists", err, res.RequeueAfter, lists)
		}
		list := &v1alpha1.NodeWorkloadList{}
		if err := b.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
			t.Errorf("%d NodeWorkloads, want 1 (%v)", len(list.Items), err)
		}
	})
}

// After etcd was restored from a backup resourceVersions begin earlier: one from before is waited
// for once, and not for every time.
func TestResourceVersionFromBeforeARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
		b.live = countingReader{b.live, &lists, "1"}
		_, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		known := b.memories.of(mw)
		known.wrote.note("1000000000", time.Now())
		b.memories.keep(mw, known)
		if res, _, err := b.reconcile(); err != nil || res.RequeueAfter != seenRetry {
			t.Fatalf("%v, again after %s", err, res.RequeueAfter)
		}
		time.Sleep(listPatience)
		for range 2 {
			if res, _, err := b.reconcile(); err != nil || res.RequeueAfter == seenRetry || lists != 1 {
				t.Errorf("%v, again after %s, %d live lists", err, res.RequeueAfter, lists)
			}
		}
	})
}

// laggingClient reads an earlier ManagedWorkload as long as there is one.
type laggingClient struct {
	client.Client
	earlier *v1alpha1.ManagedWorkload
}

func (c *laggingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if mw, ok := obj.(*v1alpha1.ManagedWorkload); ok && c.earlier != nil {
		c.earlier.DeepCopyInto(mw)
		return nil
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// A node that recovers before the cache shows that it was not ready is not taken for one
// whose status was written: nothing would wake the workload again.
func TestStatusIsNotComparedWithAnEarlierOne(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration
		// wantRetry: it is looked again when the cache may be there.
		wantRetry bool
	}{
		"the cache lags":          {after: time.Second, wantRetry: true},
		"the cache lags for long": {after: seenPatience + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
				cache := &laggingClient{Client: b.Reconciler.client}
				b.Reconciler.client = cache
				ready := func(ready bool) {
					nw := b.nodeWorkload()
					nw.Status.ObservedGeneration, nw.Status.TemplateHash, nw.Status.Phase = nw.Generation, nw.Labels[v1alpha1.LabelRevision], corev1.PodRunning
					meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{
						Type: v1alpha1.ConditionReady, Status: map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[ready], Reason: "R",
					})
					if err := cache.Client.Status().Update(t.Context(), nw); err != nil {
						t.Fatal(err)
					}
				}
				look := func(want int32) (*v1alpha1.ManagedWorkload, time.Duration) {
					t.Helper()
					res, err := b.Reconcile(t.Context(), request("default", "web"))
					if err != nil {
						t.Fatal(err)
					}
					mw := &v1alpha1.ManagedWorkload{}
					if err := cache.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, mw); err != nil || mw.Status.ReadyNodes != want {
						t.Errorf("%d ready nodes, want %d (%v)", mw.Status.ReadyNodes, want, err)
					}
					return mw, res.RequeueAfter
				}
				look(0)
				ready(true)
				earlier, _ := look(1)
				ready(false)
				look(0)
				ready(true)
				cache.earlier = earlier
				time.Sleep(test.after)
				if !test.wantRetry {
					look(1)
					return
				}
				if _, again := look(0); again != seenRetry {
					t.Errorf("again after %s, want %s", again, seenRetry)
				}
				cache.earlier = nil
				look(1)
			})
		})
	}
}

// What was read past a cache that lags for long is carried out.
func TestChangePastALaggingCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory())...)
		cache := &laggingClient{Client: b.Reconciler.client}
		b.Reconciler.client = cache
		look := func() {
			t.Helper()
			if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
				t.Fatal(err)
			}
		}
		earlier := &v1alpha1.ManagedWorkload{}
		if err := cache.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, earlier); err != nil {
			t.Fatal(err)
		}
		look()
		latest := &v1alpha1.ManagedWorkload{}
		if err := cache.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, latest); err != nil {
			t.Fatal(err)
		}
		latest.Generation++
		latest.Spec.Template.Spec.Containers[0].Image = "image:9"
		if err := cache.Client.Update(t.Context(), latest); err != nil {
			t.Fatal(err)
		}
		cache.earlier = earlier
		time.Sleep(seenPatience + time.Second)
		look()
		if got := b.nodeWorkload().Spec.Template.Spec.Containers[0].Image; got != "image:9" {
			t.Errorf("image %s, want the latest", got)
		}
	})
}

// A status alone wakes a large workload later, at most a second.
func TestDelay(t *testing.T) {
	for shares, want := range map[int]time.Duration{
		1: 0, 50: 0, 51: 100 * time.Millisecond, 1000: 100 * time.Millisecond, 5000: 500 * time.Millisecond, 100_000: time.Second,
	} {
		if got := delay(shares); got != want {
			t.Errorf("%d NodeWorkloads: %s, want %s", shares, got, want)
		}
	}
}
