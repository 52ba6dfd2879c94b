// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Delete deletes the ManagedWorkload without waiting.
func (w *Workload) Delete(options ...client.DeleteOption) {
	w.t.Helper()
	if err := w.env.Kube.Delete(w.t.Context(), &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}, options...); err != nil {
		w.t.Fatalf("delete ManagedWorkload: %v", err)
	}
}

// AwaitGone waits until the ManagedWorkload is gone, which it is when its
// containers are.
func (w *Workload) AwaitGone() {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.awaitObject(mw, "the ManagedWorkload is gone", func(exists bool) bool { return !exists })
}

func (w *Workload) awaitObject(mw *v1alpha1.ManagedWorkload, what string, done func(exists bool) bool) {
	w.t.Helper()
	one := []client.ListOption{client.InNamespace(mw.Namespace), client.MatchingFields{"metadata.name": mw.Name}}
	read := func(ctx context.Context) error { return w.env.Kube.Get(ctx, client.ObjectKeyFromObject(mw), mw) }
	await(w.t, w.env, &v1alpha1.ManagedWorkloadList{}, one, mw, read, what, done)
}

// DeleteAndCollect deletes the ManagedWorkload, waits until it is gone, and
// returns the termination's kill records as the watch saw them last.
func (w *Workload) DeleteAndCollect() []v1alpha1.KillRecord {
	w.t.Helper()
	w.Delete()
	return w.CollectUntilGone()
}

// CollectUntilGone waits until the NodeWorkload is gone and returns its last
// kill records.
func (w *Workload) CollectUntilGone() []v1alpha1.KillRecord {
	w.t.Helper()
	var kills []v1alpha1.KillRecord
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	watcher, err := Watch(ctx, w.env.Kube, &v1alpha1.NodeWorkloadList{}, w.onNode()...)
	if err != nil {
		w.t.Fatalf("watch NodeWorkload: %v", err)
	}
	defer watcher.Stop()
	err = AwaitEvent(ctx, watcher, func(e watch.Event) bool {
		if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok {
			kills = nw.Status.Kills
		}
		return e.Type == watch.Deleted
	})
	if err != nil {
		text, _ := yaml.Marshal(kills)
		w.t.Fatalf("the NodeWorkload is not gone: %v\nkills:\n%s\n%s", err, text, w.env.tails())
	}
	w.AwaitGone()
	return kills
}

// cleanUp removes what the test left; a NodeWorkload that was kept on purpose
// goes as well.
func (w *Workload) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	var errs []error
	zero := client.MergeFrom(&v1alpha1.ManagedWorkload{})
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Annotations: map[string]string{
		v1alpha1.AnnotationDeletionGracePeriodSeconds: "0",
	}}}
	errs = append(errs,
		client.IgnoreNotFound(w.env.Kube.Patch(ctx, mw.DeepCopy(), zero)),
		client.IgnoreNotFound(w.env.Kube.Delete(ctx, mw)),
		// Without the CRDs there is nothing.
		client.IgnoreNotFound(w.env.Kube.DeleteAllOf(ctx, &v1alpha1.NodeWorkload{}, client.InNamespace(w.Namespace))))
	for _, err := range errs {
		if err != nil {
			w.t.Errorf("clean up %s: %v", w.Namespace, err)
		}
	}
	list := &v1alpha1.NodeWorkloadList{}
	for ctx.Err() == nil {
		err := w.env.Kube.List(ctx, list, client.InNamespace(w.Namespace))
		if apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	text, _ := yaml.Marshal(list.Items)
	w.t.Errorf("clean up %s: NodeWorkloads are still there\n%s\n%s", w.Namespace, text, w.env.tails())
}
