// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/simnode"
)

// filled is a server with two workloads on so many nodes, of which all but the first are
// made when they are read.
func filled(t *testing.T, n int) (*server, *rest.Config, client.WithWatch) {
	t.Helper()
	s := newServer()
	s.putNodes(0, n)
	s.putWorkloads(2, 4000)
	for i := range 2 {
		name := workloadName(i)
		s.put(nodeWorkloads, &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: placement.NodeWorkloadName(name, nodeName(0)),
				Labels: map[string]string{v1alpha1.LabelWorkload: name, v1alpha1.LabelNode: nodeName(0)},
			},
			Spec: v1alpha1.NodeWorkloadSpec{NodeName: nodeName(0), Template: simnode.Template("app:1", 1000)},
		})
	}
	if err := s.learn(n); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	cfg := &rest.Config{Host: web.URL, QPS: -1}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return s, cfg, c
}

// Pages hold each object once, whatever is stored in place of lazy ones.
func TestPages(t *testing.T) {
	s, _, c := filled(t, 7)
	s.report(s.kinds[nodeWorkloads].lazy.key(3), func(*simnode.Share, time.Time) {})
	for _, limit := range []int64{1, 2, 5, 14, 100} {
		seen := map[string]bool{}
		token, pages := "", 0
		for {
			list := &v1alpha1.NodeWorkloadList{}
			if err := c.List(t.Context(), list, client.Limit(limit), client.Continue(token)); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				nw := &list.Items[i]
				want := placement.NodeWorkloadName(nw.Labels[v1alpha1.LabelWorkload], nw.Spec.NodeName)
				if seen[nw.Name] || nw.Name != want || nw.Labels[v1alpha1.LabelNode] != nw.Spec.NodeName {
					t.Errorf("limit %d: %s of %s on %s, seen before: %t", limit, nw.Name, nw.Labels[v1alpha1.LabelWorkload], nw.Spec.NodeName, seen[nw.Name])
				}
				seen[nw.Name] = true
			}
			pages++
			if token = list.Continue; token == "" {
				break
			}
		}
		if wantPages := (14 + int(limit) - 1) / int(limit); len(seen) != 14 || pages != wantPages {
			t.Errorf("limit %d: %d objects on %d pages, want 14 on %d", limit, len(seen), pages, wantPages)
		}
	}
	list := &v1alpha1.NodeWorkloadList{}
	err := c.List(t.Context(), list, client.MatchingLabels{v1alpha1.LabelWorkload: workloadName(1), v1alpha1.LabelNode: nodeName(5)})
	if err != nil || len(list.Items) != 1 || list.Items[0].Spec.NodeName != nodeName(5) {
		t.Errorf("%d objects by labels, error %v, want 1", len(list.Items), err)
	}
	if err := c.List(t.Context(), list, client.InNamespace("other")); err != nil || len(list.Items) != 0 {
		t.Errorf("%d objects in another namespace, error %v", len(list.Items), err)
	}
}

// An informer gets all objects, each change, and all again when its watch is cut, by
// either way.
func TestInformer(t *testing.T) {
	for _, withoutWatchList := range []bool{false, true} {
		t.Run(fmt.Sprintf("without WatchList %t", withoutWatchList), func(t *testing.T) {
			s, cfg, c := filled(t, 600)
			s.withoutWatchList = withoutWatchList
			informers, err := cache.New(cfg, cache.Options{Scheme: c.Scheme()})
			if err != nil {
				t.Fatal(err)
			}
			informer, err := informers.GetInformer(t.Context(), &v1alpha1.NodeWorkload{}, cache.BlockUntilSynced(false))
			if err != nil {
				t.Fatal(err)
			}
			changed := make(chan *v1alpha1.NodeWorkload, 10_000)
			if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
				if nw, ok := obj.(*v1alpha1.NodeWorkload); ok {
					changed <- nw
				}
			}}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = informers.Start(ctx) }()
			defer func() { stop(); <-done }()
			if !informers.WaitForCacheSync(t.Context()) {
				t.Fatal("not synced")
			}
			list := &v1alpha1.NodeWorkloadList{}
			if err := informers.List(t.Context(), list); err != nil || len(list.Items) != 1200 {
				t.Fatalf("%d objects, error %v, want 1200", len(list.Items), err)
			}
			for i, step := range []func(){func() {}, s.forget} {
				step()
				key := s.kinds[nodeWorkloads].lazy.key(100 + i)
				s.report(key, func(*simnode.Share, time.Time) {})
				for nw := range changed {
					if client.ObjectKeyFromObject(nw) == key && nw.Status.Summary == "Running" {
						break
					}
				}
			}
		})
	}
}

// Writes behave as those of an API server, as far as the manager can tell.
func TestWrites(t *testing.T) {
	s, _, c := filled(t, 2)
	nw := &v1alpha1.NodeWorkload{}
	key := s.kinds[nodeWorkloads].lazy.key(1)
	must(t, c.Get(t.Context(), key, nw))
	old := nw.DeepCopy()
	nw.Status.Summary = "Running"
	nw.Spec.Template.Spec.Containers[0].Image = "ignored"
	must(t, c.Status().Update(t.Context(), nw))
	if nw.Generation != 1 || nw.Spec.Template.Spec.Containers[0].Image != "app:1" || nw.Status.Summary != "Running" {
		t.Errorf("after a write of the status: %+v", nw)
	}
	if err := c.Update(t.Context(), old); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v, want a conflict", err)
	}
	must(t, c.Patch(t.Context(), nw, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:2"}]`))))
	must(t, c.Patch(t.Context(), nw, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["a/b"]}}`))))
	if nw.Generation != 2 || nw.Status.Summary != "Running" || nw.Spec.Template.Spec.Containers[0].Image != "app:2" {
		t.Errorf("after patches: %+v", nw)
	}
	must(t, c.Delete(t.Context(), nw))
	must(t, c.Get(t.Context(), key, nw))
	if nw.DeletionTimestamp == nil {
		t.Error("not being deleted")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	must(t, c.Create(t.Context(), pod, client.DryRunAll))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run stored the Pod: %v", err)
	}
}

// A watch that continues from too long ago ends with an answer that clients can read.
func TestExpiredWatch(t *testing.T) {
	s, _, c := filled(t, 1)
	s.forget()
	w, err := c.Watch(t.Context(), &corev1.NodeList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "1"}})
	must(t, err)
	defer w.Stop()
	if event := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("the watch got %s: %v", event.Type, event.Object)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
