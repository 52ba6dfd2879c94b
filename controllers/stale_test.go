// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// nodeInMemory is the Node of benches, with a shim that lives.
func nodeInMemory() []client.Object {
	return []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, leaseRenewedAt(time.Now())}
}

// runningShare is the NodeWorkload of node n1 as the shim reports it ready.
func runningShare(owner types.UID) *v1alpha1.NodeWorkload {
	view := on("n1", corev1.PodRunning, true)
	nw := view.nodeWorkload.DeepCopy() // its template is everybody's
	nw.Namespace, nw.UID, nw.Finalizers = "default", "nw", []string{v1alpha1.Finalizer}
	nw.Labels = map[string]string{v1alpha1.LabelWorkload: "web"}
	nw.OwnerReferences = nodeWorkload("n1", owner).OwnerReferences
	template.SetDefaults(&nw.Spec.Template)
	nw.Status.TemplateHash = template.Hash(&nw.Spec.Template)
	return nw
}

// readerOf answers with one object, whatever the cache says.
type readerOf struct {
	client.Reader
	mw *v1alpha1.ManagedWorkload
}

func (r readerOf) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	seen, ok := obj.(*v1alpha1.ManagedWorkload)
	if !ok {
		return r.Reader.Get(ctx, key, obj, opts...)
	}
	if r.mw == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "managedworkloads"}, key.Name)
	}
	r.mw.DeepCopyInto(seen)
	return nil
}

// The cache may learn of the end of a NodeWorkload before it learns that the
// ManagedWorkload was deleted with it: nothing is created or adopted then.
func TestNothingIsMadeForADeletedObject(t *testing.T) {
	deleted := workloadInMemory()
	deleted.DeletionTimestamp = new(metav1.Now())
	another := workloadInMemory()
	another.UID = "another"
	for name, live := range map[string]*v1alpha1.ManagedWorkload{"being deleted": deleted, "another of its name": another, "gone": nil} {
		for what, before := range map[string][]client.Object{"create": nil, "adopt": {runningShare("")}} {
			t.Run(name+"/"+what, func(t *testing.T) {
				b := newBench(t, interceptor.Funcs{}, append(append(nodeInMemory(), workloadInMemory()), before...)...)
				b.live = readerOf{Reader: b.client, mw: live}
				if _, _, err := b.reconcile(); err != nil {
					t.Fatal(err)
				}
				list := &v1alpha1.NodeWorkloadList{}
				if err := b.client.List(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				if len(list.Items) != len(before) || len(before) == 1 && len(list.Items[0].OwnerReferences) != 0 {
					t.Errorf("NodeWorkloads: %s", dump(list.Items))
				}
			})
		}
	}
}

// The same beside a real API server: both are deleted at once, and the node gets
// no second NodeWorkload.
func TestBothAreDeletedAtOnce(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	c.shimOn(n1)
	for range 5 {
		mw := c.workload()
		await(c, mw, "Ready", readyOn(1))
		w, err := api.Watch(t.Context(), &v1alpha1.NodeWorkloadList{}, client.InNamespace(c.namespace))
		c.must(err)
		c.must(api.Delete(t.Context(), c.nodeWorkload(n1)))
		c.must(api.Delete(t.Context(), mw))
		c.awaitGone(mw)
		uids := map[types.UID]bool{}
		for gone := false; !gone; {
			e := <-w.ResultChan()
			nw, ok := e.Object.(*v1alpha1.NodeWorkload)
			if !ok {
				t.Fatalf("watch: %v", e.Object)
			}
			uids[nw.UID] = true
			gone = e.Type == watch.Deleted
		}
		w.Stop()
		list := &v1alpha1.NodeWorkloadList{}
		c.must(api.List(t.Context(), list, client.InNamespace(c.namespace)))
		if len(uids) != 1 || len(list.Items) != 0 {
			t.Fatalf("%d NodeWorkloads were seen, %d are left", len(uids), len(list.Items))
		}
	}
}

// A NodeWorkload that was let go in the meantime keeps its containers, although it
// still looks like one of a deleted object.
func TestLetGoIsNotEnded(t *testing.T) {
	orphaned := runningShare("")
	orphaned.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: "an earlier attempt"}
	seen := runningShare("mw")
	seen.Annotations = orphaned.Annotations
	seen.ResourceVersion = "1"
	objects := append(nodeInMemory(), orphaned)
	b, other := newBench(t, interceptor.Funcs{}, append(objects, workloadInMemory())...), newBench(t, interceptor.Funcs{}, objects...)
	nodeWorkloads := &nodeWorkloadReconciler{client: other.client, live: other.client}
	for name, err := range map[string]error{
		"by its workload":  b.end(t.Context(), workloadInMemory(), seen.DeepCopy(), nil, byWorkloadDeleted),
		"without an owner": nodeWorkloads.reconcileOwner(t.Context(), seen.DeepCopy()),
	} {
		if !onlyConflicts(err) || err == nil {
			t.Errorf("%s: error %v, want a conflict", name, err)
		}
	}
	for name, c := range map[string]client.Client{"by its workload": b.client, "without an owner": other.client} {
		nw := &v1alpha1.NodeWorkload{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(seen), nw); err != nil || !nw.DeletionTimestamp.IsZero() {
			t.Errorf("%s: %v\n%s", name, err, dump(nw))
		}
	}
}

// A change that did not reach a NodeWorkload is not taken for one that did.
func TestFailedUpdateIsNotReady(t *testing.T) {
	mw := workloadInMemory()
	mw.Generation = 2
	mw.Spec.RestartBackoff = &v1alpha1.RestartBackoff{MaxSeconds: ptr.To[int32](5)}
	fail := true
	b := newBench(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if _, ok := obj.(*v1alpha1.NodeWorkload); ok && fail {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodeworkloads"}, obj.GetName(), errors.New("changed"))
		}
		return c.Patch(ctx, obj, patch, opts...)
	}}, append(nodeInMemory(), mw, runningShare("mw"))...)
	_, got, err := b.reconcile()
	if err != nil || kstatus(got) != "InProgress" || got.Status.UpdatedNodes != 0 {
		t.Errorf("after a conflict: %v, kstatus %s\n%s", err, kstatus(got), dump(got.Status))
	}
	fail = false
	if _, got, err = b.reconcile(); err != nil || kstatus(got) != "Current" {
		t.Errorf("without one: %v\n%s", err, dump(got.Status))
	}
	nw := runningShare("mw")
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil || ptr.Deref(nw.Spec.RestartBackoff.MaxSeconds, 0) != 5 {
		t.Errorf("NodeWorkload: %v\n%s", err, dump(nw))
	}
}

// The NodeWorkloads of an earlier object of the same name are waited for: that is
// no conflict, and nobody needs to do anything. Another's are one, until they go.
func TestNodeWorkloadsInTheWay(t *testing.T) {
	of := func(name string, uid types.UID) *v1alpha1.NodeWorkload {
		nw := runningShare("")
		nw.OwnerReferences = []metav1.OwnerReference{ownerReference(&v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}})}
		return nw
	}
	ending := of("other", "other")
	ending.DeletionTimestamp = new(metav1.Now())
	tests := map[string]struct {
		inTheWay    *v1alpha1.NodeWorkload
		wantKstatus string
	}{
		"an earlier object of the name": {of("web", "old"), "InProgress"},
		"another's, ending":             {ending, "InProgress"},
		"another's":                     {of("other", "other"), "Failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if _, ok := obj.(*v1alpha1.NodeWorkload); ok {
					t.Error("tried to create a NodeWorkload whose name is taken")
				}
				return c.Create(ctx, obj, opts...)
			}}, append(nodeInMemory(), workloadInMemory(), tc.inTheWay)...)
			res, mw, err := b.reconcile()
			if err != nil || kstatus(mw) != tc.wantKstatus || res.RequeueAfter != inTheWayRecheck {
				t.Errorf("error %v, kstatus %s, again after %s\n%s", err, kstatus(mw), res.RequeueAfter, dump(mw.Status))
			}
		})
	}
}

func TestRecreatedWhileTheOldOneEnds(t *testing.T) {
	c := newCluster(t)
	n1 := c.node("n1")
	shim := c.shimOn(n1)
	mw := c.workload()
	await(c, mw, "Ready", readyOn(1))
	shim.setHold(true)
	c.must(api.Delete(t.Context(), mw))
	old := await(c, c.nodeWorkload(n1), "deleted", endsWith(-1))
	update(c, mw, func(mw *v1alpha1.ManagedWorkload) { mw.Finalizers = nil })
	c.awaitGone(mw)
	next := c.workload()
	notStalled := func(mw *v1alpha1.ManagedWorkload) {
		if kstatus(mw) == "Failed" {
			t.Errorf("stalled: %s", dump(mw.Status))
		}
	}
	await(c, next, "waiting", func(mw *v1alpha1.ManagedWorkload) bool {
		notStalled(mw)
		return mw.Status.Summary == "updating 0/1"
	})
	shim.setHold(false)
	await(c, next, "Ready", func(mw *v1alpha1.ManagedWorkload) bool {
		notStalled(mw)
		return readyOn(1)(mw)
	})
	nw := c.nodeWorkload(n1)
	c.must(api.Get(t.Context(), client.ObjectKeyFromObject(nw), nw))
	if nw.UID == old.UID || !metav1.IsControlledBy(nw, next) {
		t.Errorf("not the new one's: %s", dump(nw))
	}
}

// The watch may be away for as long as a NodeWorkload lives: the cache never has it,
// and nothing reports its end. The deletion that finds it past the cache asks again.
func TestDeletionOfWhatTheCacheNeverHad(t *testing.T) {
	unseen := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		cached := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector != nil
		if _, ok := list.(*v1alpha1.NodeWorkloadList); ok && cached {
			return nil
		}
		return c.List(ctx, list, opts...)
	}}
	mw, nw := workloadInMemory(), runningShare("mw")
	mw.Finalizers = []string{v1alpha1.Finalizer}
	b := newBench(t, unseen, append(nodeInMemory(), mw, nw)...)
	if err := b.client.Delete(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	result, _, err := b.reconcile()
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 10*time.Second {
		t.Fatalf("asks again after %s, %v", result.RequeueAfter, err)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil || nw.DeletionTimestamp == nil {
		t.Fatalf("the NodeWorkload was not deleted: %v", err)
	}
	nw.Finalizers = nil // as its shim does
	if err := b.client.Update(t.Context(), nw); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reconcile(t.Context(), request(mw.Namespace, mw.Name)); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(mw), mw); !apierrors.IsNotFound(err) {
		t.Errorf("the ManagedWorkload is still there: %v", err)
	}
}
