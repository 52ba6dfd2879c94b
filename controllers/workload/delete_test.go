// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// pagingReader answers a list with one object a page, as an API server may, and
// counts the whole NodeWorkloads that it sends.
type pagingReader struct {
	client.Reader
	t    *testing.T
	sent int
}

func (r *pagingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.t.Helper()
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if _, whole := list.(*v1alpha1.NodeWorkloadList); o.Limit == 0 || whole && o.LabelSelector == nil {
		r.t.Errorf("%T: limit %d, labels %v", list, o.Limit, o.LabelSelector)
	}
	if err := r.Reader.List(ctx, list, &client.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector}); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	at, _ := strconv.Atoi(o.Continue)
	page := items[min(at, len(items)):min(at+1, len(items))]
	if list.SetContinue(""); at+1 < len(items) {
		list.SetContinue(strconv.Itoa(at + 1))
	}
	if _, whole := list.(*v1alpha1.NodeWorkloadList); whole {
		r.sent += len(page)
	}
	return meta.SetList(list, append([]runtime.Object{}, page...))
}

// A deletion reads the NodeWorkloads of its own object, page by page, and looks once at
// the metadata of all before it lets the object go: a label can be removed by hand.
func TestDeletionReadsItsOwnPageByPage(t *testing.T) {
	nodeWorkload := func(workload, node string) *v1alpha1.NodeWorkload {
		nw := runningNodeWorkload(types.UID(workload))
		nw.Name, nw.UID, nw.Spec.NodeName = placement.NodeWorkloadName(workload, node), types.UID(workload+node), node
		nw.Labels[v1alpha1.LabelWorkload] = workload
		nw.OwnerReferences[0].Name, nw.OwnerReferences[0].UID = workload, types.UID(workload)
		return nw
	}
	unlabelled := nodeWorkload("web", "n3")
	unlabelled.Labels = nil
	for name, orphaned := range map[string]bool{"ended": false, "let go": true} {
		t.Run(name, func(t *testing.T) {
			mw := workloadInMemory()
			mw.UID, mw.Finalizers = "web", []string{v1alpha1.Finalizer}
			if orphaned {
				mw.Finalizers = append(mw.Finalizers, metav1.FinalizerOrphanDependents)
			}
			mw.DeletionTimestamp = new(metav1.Now())
			objects := append(nodeInMemory(), mw, unlabelled.DeepCopy(), nodeWorkload("web", "n1"), nodeWorkload("web", "n2"))
			for _, node := range []string{"n1", "n2", "n3", "n4"} {
				objects = append(objects, nodeWorkload("other", node))
			}
			b := newBench(t, interceptor.Funcs{}, objects...)
			cache := b.client
			b.client = interceptor.NewClient(cache.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*v1alpha1.NodeWorkloadList); ok {
					return nil // the watch is away
				}
				return c.List(ctx, list, opts...)
			}})
			live := &pagingReader{Reader: cache, t: t}
			b.live = live
			for range 5 {
				if _, err := b.Reconcile(t.Context(), request("default", "web")); err != nil {
					t.Fatal(err)
				}
				for _, node := range []string{"n1", "n2", "n3"} { // as the shims do
					nw := nodeWorkload("web", node)
					if err := cache.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err == nil && !nw.DeletionTimestamp.IsZero() {
						nw.Finalizers = nil
						if err := cache.Update(t.Context(), nw); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			list := &v1alpha1.NodeWorkloadList{}
			if err := cache.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			left, owned := 0, 0
			for i := range list.Items {
				if list.Items[i].OwnerReferences == nil {
					left++
				} else if list.Items[i].OwnerReferences[0].UID == "web" {
					owned++
				}
			}
			if wantLeft := map[bool]int{true: 3}[orphaned]; owned != 0 || left != wantLeft || len(list.Items) != 4+wantLeft {
				t.Errorf("%d NodeWorkloads, %d still owned, %d let go", len(list.Items), owned, left)
			}
			if err := cache.Get(t.Context(), client.ObjectKeyFromObject(mw), mw); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("the ManagedWorkload is kept: %v %v", mw.Finalizers, err)
			}
			if live.sent > 4 {
				t.Errorf("%d whole NodeWorkloads were read", live.sent)
			}
		})
	}
}
