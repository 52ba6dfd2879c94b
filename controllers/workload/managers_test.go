// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// managers are several that act at once on one API server in memory, each with what its
// watches have shown it so far.
type managers struct {
	*bench
	all []*actor
	// history are the NodeWorkloads after each write.
	history []*v1alpha1.NodeWorkloadList
	// newest is the highest resourceVersion: that of an API server grows over all objects.
	newest uint64
	// kills counts how often a node's shim had another template to run.
	kills map[string]int
	// most is the largest number of nodes that were to run what they did not run yet.
	most int
}

// actor is one of them. It knows history[at] and an object as it was.
type actor struct {
	*bench
	at int
	mw *v1alpha1.ManagedWorkload
}

// staleReader is a client whose cache has an object as it was.
type staleReader struct {
	client.Client
	of *actor
}

func (r staleReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if mw, ok := obj.(*v1alpha1.ManagedWorkload); ok {
		r.of.mw.DeepCopyInto(mw)
		return nil
	}
	return r.Client.Get(ctx, key, obj, opts...)
}

// newManagers has n managers over a workload that is rolled out on five nodes.
func newManagers(t *testing.T, n int) *managers {
	t.Helper()
	w := &managers{bench: newFleet(t, interceptor.Funcs{}), kills: map[string]int{}}
	under, ok := w.client.(client.WithWatch)
	if !ok {
		t.Fatal("the client in memory has no watch")
	}
	w.client = interceptor.NewClient(under, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.order(ctx, c, obj, c.Create(ctx, obj, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.order(ctx, c, obj, c.Patch(ctx, obj, p, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.order(ctx, c, obj, c.SubResource(name).Update(ctx, obj, opts...))
		},
	})
	w.note()
	for range n {
		m := &actor{bench: newBenchOf(t, w.client)}
		m.blind = true // its index lags
		m.refresh()
		m.Reconciler.client = staleReader{w.client, m}
		w.all = append(w.all, m)
		w.look(m, 0)
		m.mw = w.workload()
	}
	return w
}

// order gives a NodeWorkload that was written the highest resourceVersion of all.
func (w *managers) order(ctx context.Context, c client.Client, obj client.Object, err error) error {
	nw, ok := obj.(*v1alpha1.NodeWorkload)
	if err != nil || !ok {
		return err
	}
	for {
		version, err := strconv.ParseUint(nw.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		if version > w.newest {
			w.newest = version
			w.note()
			return nil
		}
		if err := c.Update(ctx, nw); err != nil {
			return err
		}
	}
}

// note adds the NodeWorkloads as they are to the history.
func (w *managers) note() {
	w.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	changing := 0
	for i := range list.Items {
		nw := &list.Items[i]
		version, err := strconv.ParseUint(nw.ResourceVersion, 10, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		w.newest = max(w.newest, version)
		if nw.Status.TemplateHash != "" && nw.Status.TemplateHash != template.Hash(&nw.Spec.Template) {
			changing++
		}
	}
	w.most = max(w.most, changing)
	w.history = append(w.history, list)
}

// look shows a manager the NodeWorkloads as they were.
func (w *managers) look(m *actor, at int) {
	m.at = at
	m.fleet.Shares.Reset(w.history[at].DeepCopy())
}

// carryOut lets the shim of the i-th NodeWorkload do what its spec says.
func (w *managers) carryOut(i int) {
	w.t.Helper()
	now := w.history[len(w.history)-1].Items
	nw := now[i%len(now)].DeepCopy()
	hash := template.Hash(&nw.Spec.Template)
	if nw.Status.TemplateHash == hash && nw.Status.ObservedGeneration == nw.Generation {
		return
	}
	if nw.Status.TemplateHash != "" && nw.Status.TemplateHash != hash {
		w.kills[nw.Spec.NodeName]++
	}
	w.reportOf(nw)
}

// Two managers that act at once, as after a lost election, over indexes that lag, kill
// each container once, use the budget once each at most, and come to one result.
func TestManagersThatActAtOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newManagers(t, 2)
		budget := rapid.IntRange(1, 2).Draw(rt, "budget")
		w.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
			image("app:9")(spec)
			spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt(budget))}}
		})
		for _, m := range w.all { // they do not choose the same nodes
			known := m.memories.of(m.mw)
			for i := range 5 {
				if rapid.Bool().Draw(rt, "last") {
					known.refused[fmt.Sprintf("n%d", i+1)] = "no"
				}
			}
			m.memories.keep(m.mw, known)
		}
		act := func(m *actor) {
			m.mw = w.workload()
			if _, err := m.Reconciler.Reconcile(t.Context(), request("default", "web")); err != nil {
				rt.Fatalf("reconcile: %v", err)
			}
			if w.most > 2*budget {
				rt.Fatalf("%d nodes change at once, with a budget of %d", w.most, budget)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"act": func(rt *rapid.T) {
				m := rapid.SampledFrom(w.all).Draw(rt, "manager")
				w.look(m, rapid.IntRange(m.at, len(w.history)-1).Draw(rt, "at"))
				act(m)
			},
			"carry out": func(rt *rapid.T) { w.carryOut(rapid.IntRange(0, 5).Draw(rt, "node")) },
			"new node": func(*rapid.T) {
				n6 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n6"}}
				for _, m := range w.all {
					m.fleet.Shims.Observe(managertest.LeaseOf(n6.Name, time.Now()), time.Now())
					m.fleet.Nodes.Observe(n6.Name, n6)
				}
			},
		})
		for range 12 {
			if mw := w.workload(); managertest.Kstatus(mw) == "Current" && mw.Status.CurrentRevision == mw.Status.UpdateRevision {
				break
			}
			for _, m := range w.all {
				w.look(m, len(w.history)-1)
				act(m)
				for i := range w.history[len(w.history)-1].Items {
					w.carryOut(i)
				}
			}
		}
		w.wantOneResult(rt)
	})
}

// wantOneResult fails unless each node has one NodeWorkload of the new template, and each
// container that ran was killed once.
func (w *managers) wantOneResult(t *rapid.T) {
	var nodes []string
	for _, nw := range w.history[len(w.history)-1].Items {
		nodes = append(nodes, nw.Spec.NodeName)
		if got := nw.Spec.Template.Spec.Containers[0].Image; got != "app:9" {
			t.Errorf("%s has %s", nw.Spec.NodeName, got)
		}
	}
	slices.Sort(nodes)
	if len(slices.Compact(slices.Clone(nodes))) != len(nodes) || len(nodes) < 5 {
		t.Errorf("NodeWorkloads of the nodes %q", nodes)
	}
	for i := range 5 {
		if node := fmt.Sprintf("n%d", i+1); w.kills[node] != 1 {
			t.Errorf("%s was killed %d times", node, w.kills[node])
		}
	}
	if mw := w.workload(); managertest.Kstatus(mw) != "Current" || mw.Status.CurrentRevision != mw.Status.UpdateRevision {
		t.Errorf("status: %s", managertest.Dump(mw.Status))
	}
}

// A manager whose cache has the object as it was before takes nothing back that one with
// the current object has carried out.
func TestStaleObjectTakesNothingBack(t *testing.T) {
	w := newManagers(t, 2)
	w.change(image("app:9"))
	w.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.RestartBackoff = &v1alpha1.RestartBackoff{BaseSeconds: new(int32(7))}
	})
	fresh, stale := w.all[0], w.all[1]
	fresh.mw = w.workload()
	for range 2 {
		if _, err := fresh.Reconciler.Reconcile(t.Context(), request("default", "web")); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			w.carryOut(i)
		}
		w.look(fresh, len(w.history)-1)
	}
	before := w.images()
	w.look(stale, len(w.history)-1)
	live := &countingGets{Reader: stale.live}
	stale.Reconciler.live = live
	if _, err := stale.Reconciler.Reconcile(t.Context(), request("default", "web")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.images()); diff != "" || before["app:9"] == 0 {
		t.Errorf("images (-before +after):\n%s", diff)
	}
	if live.gets != 1 {
		t.Errorf("the object was read %d times past the cache, want once for all nodes", live.gets)
	}
}

// countingGets counts the reads of ManagedWorkloads.
type countingGets struct {
	client.Reader
	gets int
}

func (r *countingGets) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*v1alpha1.ManagedWorkload); ok {
		r.gets++
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

// Nor does it end what the current placement lets run.
func TestStalePlacementEndsNothing(t *testing.T) {
	w := newManagers(t, 1)
	stale := w.all[0]
	w.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.Template.Spec.NodeSelector = map[string]string{"number": "1"}
	})
	stale.mw = w.workload()
	w.change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Template.Spec.NodeSelector = nil })
	if _, err := stale.Reconciler.Reconcile(t.Context(), request("default", "web")); err != nil {
		t.Fatal(err)
	}
	w.note()
	now := w.history[len(w.history)-1].Items
	for i := range now {
		if !now[i].DeletionTimestamp.IsZero() {
			t.Errorf("the NodeWorkload of %s was ended", now[i].Spec.NodeName)
		}
	}
	if len(now) != 5 || len(w.revisions()) != 1 {
		t.Errorf("%d NodeWorkloads and %d revisions, want 5 and 1", len(now), len(w.revisions()))
	}
}
