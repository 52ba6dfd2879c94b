// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// nodeInMemory is the Node of benches, with a shim that lives.
func nodeInMemory() []client.Object {
	return []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, managertest.Lease(time.Now())}
}

// runningNodeWorkload is the NodeWorkload of node n1 as the shim reports it ready.
func runningNodeWorkload(owner types.UID) *v1alpha1.NodeWorkload {
	nw := reported("n1", corev1.PodRunning, true).DeepCopy() // its template is everybody's
	nw.Namespace, nw.UID, nw.Finalizers = "default", "nw", []string{v1alpha1.Finalizer}
	nw.Labels = map[string]string{v1alpha1.LabelWorkload: "web", v1alpha1.LabelRevision: revisionHash()}
	nw.OwnerReferences = managertest.NodeWorkload("n1", owner).OwnerReferences
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
		for what, before := range map[string][]client.Object{"create": nil, "adopt": {runningNodeWorkload("")}} {
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
					t.Errorf("NodeWorkloads: %s", managertest.Dump(list.Items))
				}
			})
		}
	}
}

// A NodeWorkload that was let go in the meantime keeps its containers, although it
// still looks like one of a deleted object.
func TestLetGoIsNotEnded(t *testing.T) {
	orphaned := runningNodeWorkload("")
	orphaned.Annotations = map[string]string{v1alpha1.AnnotationRequestedBy: "an earlier attempt"}
	seen := runningNodeWorkload("mw")
	seen.Annotations = orphaned.Annotations
	seen.ResourceVersion = "1"
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), orphaned, workloadInMemory())...)
	s, err := b.gather(t.Context(), workloadInMemory(), memory{})
	if err != nil {
		t.Fatal(err)
	}
	err = b.end(t.Context(), s, fleet.ShareOf(seen, nil), nil, byWorkloadDeleted)
	if !writes.OnlyConflicts(err) || err == nil {
		t.Errorf("error %v, want a conflict", err)
	}
	nw := &v1alpha1.NodeWorkload{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(orphaned), nw); err != nil || !nw.DeletionTimestamp.IsZero() {
		t.Errorf("%v\n%s", err, managertest.Dump(nw))
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
	}}, append(nodeInMemory(), mw, runningNodeWorkload("mw"))...)
	_, got, err := b.reconcile()
	if err != nil || managertest.Kstatus(got) != "InProgress" || got.Status.UpdatedNodes != 0 {
		t.Errorf("after a conflict: %v, kstatus %s\n%s", err, managertest.Kstatus(got), managertest.Dump(got.Status))
	}
	fail = false
	if _, got, err = b.reconcile(); err != nil || managertest.Kstatus(got) != "Current" {
		t.Errorf("without one: %v\n%s", err, managertest.Dump(got.Status))
	}
	nw := runningNodeWorkload("mw")
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil || ptr.Deref(nw.Spec.RestartBackoff.MaxSeconds, 0) != 5 {
		t.Errorf("NodeWorkload: %v\n%s", err, managertest.Dump(nw))
	}
}

// The NodeWorkloads of an earlier object of the same name are waited for: that is
// no conflict and needs no action. Those of another are one, until they go.
func TestNodeWorkloadsInTheWay(t *testing.T) {
	of := func(name string, uid types.UID) *v1alpha1.NodeWorkload {
		nw := runningNodeWorkload("")
		nw.OwnerReferences = []metav1.OwnerReference{writes.OwnerReference(&v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}})}
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
			if err != nil || managertest.Kstatus(mw) != tc.wantKstatus || res.RequeueAfter != inTheWayRecheck {
				t.Errorf("error %v, kstatus %s, again after %s\n%s", err, managertest.Kstatus(mw), res.RequeueAfter, managertest.Dump(mw.Status))
			}
			if goesBy := b.fleet.Shares.RollOut(mw.UID); goesBy == nil || len(goesBy.Blocked) != 1 {
				t.Errorf("the roll-out goes by %+v, want the node blocked", goesBy)
			}
		})
	}
}

// The watch may be away for as long as a NodeWorkload lives: the cache never has it,
// and nothing reports its end. The deletion that finds it past the cache asks again.
func TestDeletionOfWhatTheCacheNeverHad(t *testing.T) {
	mw, nw := workloadInMemory(), runningNodeWorkload("mw")
	mw.Finalizers = []string{v1alpha1.Finalizer}
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), mw, nw)...)
	b.blind = true
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

// withName is a NodeWorkload under another name.
func withName(nw *v1alpha1.NodeWorkload, name string) *v1alpha1.NodeWorkload {
	nw.Name, nw.UID = name, types.UID("uid-"+name)
	return nw
}

// A NodeWorkload of ours is found by its owner and node, whatever its name is; one of another owner and an
// orphan by its name.
func TestNodeWorkloadsAreFound(t *testing.T) {
	const other = "web-n1"
	name := placement.NodeWorkloadName("web", "n1")
	ended := runningNodeWorkload("old")
	ended.Finalizers, ended.DeletionTimestamp = []string{v1alpha1.Finalizer}, new(metav1.Now())
	letGo := runningNodeWorkload("")
	letGo.DeletionTimestamp = new(metav1.Now())
	another := withName(runningNodeWorkload("another"), other)
	another.OwnerReferences[0].Name, another.Labels[v1alpha1.LabelWorkload] = "other", "other"
	tests := map[string]struct {
		there *v1alpha1.NodeWorkload
		want  map[string]bool // names, and whether the workload controls them
	}{
		"ours, with another name":          {withName(runningNodeWorkload("mw"), other), map[string]bool{other: true}},
		"an orphan":                        {runningNodeWorkload(""), map[string]bool{name: true}},
		"of an earlier object, not ended":  {ended, map[string]bool{name: false}},
		"an orphan that has not ended yet": {letGo, map[string]bool{name: false}},
		"another workload's":               {another, map[string]bool{other: false, name: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory(), tc.there)...)
			if _, _, err := b.reconcile(); err != nil {
				t.Fatal(err)
			}
			list := &v1alpha1.NodeWorkloadList{}
			if err := b.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for i := range list.Items {
				got[list.Items[i].Name] = metav1.IsControlledBy(&list.Items[i], workloadInMemory())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("NodeWorkloads and whether they are ours (-want +got):\n%s", diff)
			}
		})
	}
}

// Of two on a node the one that runs stays, whatever their names are.
func TestOfTwoTheOneThatRunsStays(t *testing.T) {
	const runs = "web-n1"
	waiting := runningNodeWorkload("mw")
	waiting.Status = v1alpha1.NodeWorkloadStatus{ObservedGeneration: -1}
	b := newBench(t, interceptor.Funcs{}, append(nodeInMemory(), workloadInMemory(), waiting, withName(runningNodeWorkload("mw"), runs))...)
	if _, _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	for name, wantEnding := range map[string]bool{waiting.Name: true, runs: false} {
		nw := &v1alpha1.NodeWorkload{}
		if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, nw); err != nil || nw.DeletionTimestamp.IsZero() == wantEnding {
			t.Errorf("%s: ending %v, want %v (%v)", name, !nw.DeletionTimestamp.IsZero(), wantEnding, err)
		}
	}
}
