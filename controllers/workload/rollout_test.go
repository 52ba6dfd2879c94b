// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/writes"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// report lets the shims of all nodes carry out their NodeWorkloads, but not an image named
// "bad:1", which they pull before they kill.
func (b *bench) report(except ...string) {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		b.reportOf(&list.Items[i], except...)
	}
}

// reportOf lets one shim carry out its NodeWorkload.
func (b *bench) reportOf(nw *v1alpha1.NodeWorkload, except ...string) {
	b.t.Helper()
	status := &nw.Status
	status.ObservedGeneration, status.Phase, status.Summary, status.Ready = nw.Generation, corev1.PodRunning, "Running", "1/1"
	ready, waits := metav1.ConditionTrue, metav1.ConditionFalse
	switch hash := template.Hash(&nw.Spec.Template); {
	case nw.Spec.Template.Spec.Containers[0].Image == "bad:1":
		waits = metav1.ConditionTrue
	case strings.Contains(strings.Join(except, " "), nw.Spec.NodeName):
		ready, status.TemplateHash, status.Ready = metav1.ConditionFalse, hash, "0/1"
	default:
		status.TemplateHash = hash
	}
	if status.TemplateHash == "" {
		ready = metav1.ConditionFalse
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: ready})
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: "UpdateWaiting", Status: waits, Reason: "ImagePullBackOff", Message: "no such image"})
	if err := b.client.Status().Update(b.t.Context(), nw); err != nil {
		b.t.Fatal(err)
	}
}

// turn lets the reconciler act, and then the shims.
func (b *bench) turn(except ...string) *v1alpha1.ManagedWorkload {
	b.t.Helper()
	_, mw, err := b.reconcile()
	if err != nil {
		b.t.Fatal(err)
	}
	b.report(except...)
	return mw
}

// change changes the workload, as an API server that counts generations.
func (b *bench) change(f func(*v1alpha1.ManagedWorkloadSpec)) {
	b.t.Helper()
	mw := b.workload()
	f(&mw.Spec)
	mw.Generation++
	if err := b.client.Update(b.t.Context(), mw); err != nil {
		b.t.Fatal(err)
	}
}

func image(name string) func(*v1alpha1.ManagedWorkloadSpec) {
	return func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Template.Spec.Containers[0].Image = name }
}

func (b *bench) workload() *v1alpha1.ManagedWorkload {
	b.t.Helper()
	mw := workloadInMemory()
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(mw), mw); err != nil {
		b.t.Fatal(err)
	}
	return mw
}

// images are those of the NodeWorkloads' specs, by how many have them.
func (b *bench) images() map[string]int {
	b.t.Helper()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	images := map[string]int{}
	for i := range list.Items {
		images[list.Items[i].Spec.Template.Spec.Containers[0].Image]++
	}
	return images
}

// newFleet is a workload that is rolled out on nodes n1 to n5, whose generation grows with
// each change of a NodeWorkload.
func newFleet(t *testing.T, funcs interceptor.Funcs) *bench {
	t.Helper()
	patch := funcs.Patch
	funcs.Patch = func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if patch != nil {
			if err := patch(ctx, c, obj, p, opts...); err != nil {
				return err
			}
		}
		if err := c.Patch(ctx, obj, p, opts...); err != nil {
			return err
		}
		if nw, isShare := obj.(*v1alpha1.NodeWorkload); isShare && p.Type() == types.JSONPatchType {
			nw.Generation++
			return c.Update(ctx, nw)
		}
		return nil
	}
	objects := []client.Object{workloadInMemory()}
	for i := range 5 {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), Labels: map[string]string{"number": fmt.Sprint(i + 1)}}})
	}
	b := newBench(t, funcs, objects...)
	b.turn()
	b.turn()
	if mw := b.turn(); mw.Status.Summary != "ready" || mw.Status.CurrentRevision != mw.Status.UpdateRevision {
		t.Fatalf("status %+v", mw.Status)
	}
	return b
}

func (b *bench) expect(what string, mw *v1alpha1.ManagedWorkload, images map[string]int, summary, kstatus string) {
	b.t.Helper()
	maps.DeleteFunc(images, func(_ string, n int) bool { return n == 0 })
	if got := b.images(); fmt.Sprint(got) != fmt.Sprint(images) {
		b.t.Errorf("%s: images %v, want %v", what, got, images)
	}
	if got := mw.Status.Summary; got != summary {
		b.t.Errorf("%s: summary %q, want %q", what, got, summary)
	}
	mw = mw.DeepCopy()
	if got := managertest.Kstatus(mw); got != kstatus {
		b.t.Errorf("%s: kstatus %s, want %s\n%v", what, got, kstatus, mw.Status.Conditions)
	}
}

// first is the image that workloadInMemory has.
var first = workloadInMemory().Spec.Template.Spec.Containers[0].Image

// A good template goes from node to node, and its revision is the current one then.
func TestRollOut(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(image("app:9"))
	mw := b.workload()
	mw.Annotations = map[string]string{annotationChangeCause: "try 9"}
	if err := b.client.Update(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		b.expect(fmt.Sprint(i), b.turn(), map[string]int{"app:9": i + 1, first: 4 - i}, fmt.Sprintf("updating %d/5", i), "InProgress")
	}
	mw = b.turn()
	b.expect("at the end", mw, map[string]int{"app:9": 5}, "ready", "Current")
	if mw := b.turn(); mw.Status.CurrentRevision != mw.Status.UpdateRevision {
		t.Errorf("current %s, update %s", mw.Status.CurrentRevision, mw.Status.UpdateRevision)
	}
	for _, revision := range b.revisions() {
		if got := revision.Annotations[annotationChangeCause]; (got == "try 9") != (revision.Spec.Revision == 2) {
			t.Errorf("revision %d: %q", revision.Spec.Revision, got)
		}
	}
	events := strings.Join(b.drain("RollOut"), "\n")
	if strings.Count(events, eventRollOut+" ") != 2 || strings.Count(events, eventRolledOut+" ") != 1 || !strings.HasSuffix(events, " is available on 5 nodes") {
		t.Errorf("events\n%s", events)
	}
}

// A bad image stops at one node, which still runs what it ran, is named, and is taken back
// at once.
func TestBadImageStops(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(image("bad:1"))
	var mw *v1alpha1.ManagedWorkload
	for range 4 {
		mw = b.turn()
	}
	b.expect("bad", mw, map[string]int{"bad:1": 1, first: 4}, "updating 0/5", "InProgress")
	if text := message(mw, v1alpha1.ConditionReady); !strings.Contains(text, "(ImagePullBackOff; no such image, since ") || !strings.Contains(text, "4 nodes wait (MaxUnavailable, since ") {
		t.Errorf("Ready: %s", text)
	}
	b.change(image(first))
	mw = b.turn()
	b.expect("taken back", mw, map[string]int{first: 5}, "updating 4/5", "InProgress")
	b.expect("and ready", b.turn(), map[string]int{first: 5}, "ready", "Current")
}

// The nodes of a roll-out that does not progress are named, and the deadline is the spec's.
func TestStalledByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
			image("bad:1")(spec)
			spec.ProgressDeadlineSeconds = new(int32(60))
			spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromString("40%"))}}
		})
		began := time.Now().UTC().Format(time.RFC3339)
		b.turn()
		b.turn()
		time.Sleep(time.Minute)
		mw := b.turn()
		b.expect("late", mw, map[string]int{"bad:1": 2, first: 3}, "stalled 0/5", "Failed")
		if text := message(mw, v1alpha1.ConditionStalled); !strings.HasPrefix(text, "no progress for 1m0s (since "+began+"): 0 of 5 reachable nodes run the current template; updating n") {
			t.Errorf("Stalled: %s", text)
		}
	})
}

// Pause, partition, nodeSelector and OnDelete hold nodes, which are named; a NodeWorkload
// that is deleted there comes back as it was, and with OnDelete with the update.
func TestHeldNodes(t *testing.T) {
	tests := map[string]struct {
		spec    func(*v1alpha1.ManagedWorkloadSpec)
		images  map[string]int
		summary string
		kstatus string
		back    string
		waits   string
		undo    bool
	}{
		"paused": {
			func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Paused = true },
			map[string]int{first: 5}, "paused 0/5", "InProgress", first, "5 nodes wait (Paused, since ", false,
		},
		"partition": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: new(int32(5))}}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", first, "5 nodes wait (Partition, since ", false,
		},
		"canary": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "2"}}}
			},
			map[string]int{"app:9": 1, first: 4}, "ready; 4 nodes not updated", "Current", first, "4 nodes wait (NodeSelector, since ", false,
		},
		"undo with partition": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: new(int32(5))}}
			},
			map[string]int{"app:9": 5}, "ready; 5 nodes not updated", "Current", "app:9", "5 nodes wait (Partition, since ", true,
		},
		"undo with canary": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "2"}}}
			},
			map[string]int{first: 1, "app:9": 4}, "ready; 4 nodes not updated", "Current", "app:9", "4 nodes wait (NodeSelector, since ", true,
		},
		"canary of no node": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "6"}}}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", first, "5 nodes wait (NodeSelector, since ", false,
		},
		"OnDelete": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", "app:9", "5 nodes wait (OnDelete, since ", false,
		},
		"paused, partition": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.Paused = true
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: new(int32(5))}}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", first, "5 nodes wait (Partition, since ", false,
		},
		"paused, partition of some nodes": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.Paused = true
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{Partition: new(int32(4))}}
			},
			map[string]int{first: 5}, "paused 0/5", "InProgress", first, "1 node waits (Paused, since ", false,
		},
		"paused, canary": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.Paused = true
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{NodeSelector: map[string]string{"number": "6"}}}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", first, "5 nodes wait (NodeSelector, since ", false,
		},
		"paused, OnDelete": {
			func(spec *v1alpha1.ManagedWorkloadSpec) {
				spec.Paused = true
				spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: v1alpha1.OnDeleteStrategyType}
			},
			map[string]int{first: 5}, "ready; 5 nodes not updated", "Current", first, "5 nodes wait (OnDelete, since ", false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newFleet(t, interceptor.Funcs{})
			update := "app:9"
			if tc.undo {
				b.change(image(update))
				for range 7 {
					b.turn()
				}
				update = first
			}
			b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { image(update)(spec); tc.spec(spec) })
			b.turn()
			b.turn()
			mw := b.turn()
			b.memories = memories{} // the manager restarts, and remembers nothing
			b.expect("held", mw, tc.images, tc.summary, tc.kstatus)
			if text := message(mw, v1alpha1.ConditionReady); !strings.Contains(text, tc.waits) {
				t.Errorf("Ready: %q, want %q in it", text, tc.waits)
			}
			nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: placement.NodeWorkloadName("web", "n1")}}
			nw.Finalizers = nil
			if err := b.client.Delete(t.Context(), nw); err != nil {
				t.Fatal(err)
			}
			if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err == nil {
				nw.Finalizers = nil
				if err := b.client.Update(t.Context(), nw); err != nil {
					t.Fatal(err)
				}
			}
			for _, restart := range []bool{false, true} {
				if restart { // of the manager: it remembers nothing
					b.memories = memories{}
				}
				b.turn()
				if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(nw), nw); err != nil {
					t.Fatal(err)
				}
				if got := nw.Spec.Template.Spec.Containers[0].Image; got != tc.back {
					t.Errorf("it came back with %s, want %s", got, tc.back)
				}
			}
		})
	}
}

// Where a node never had a shim nothing is written; a shim that comes is served.
func TestNodeWithoutAShim(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.fleet.Nodes.Observe("n6", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n6"}})
	s, err := b.gather(t.Context(), b.workload(), b.memories.of(b.workload()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.reconcileVerdict(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if want == 1 {
			b.fleet.Shims.Observe(managertest.LeaseOf("n6", time.Now()), time.Now())
		}
		if got := len(b.planRollOut(s).batch.Changes); got != want {
			t.Errorf("%d changes, want %d", got, want)
		}
	}
}

// A template that is taken back while a batch is written is carried no further.
func TestBatchIsAbandoned(t *testing.T) {
	var b *bench
	written := 0
	b = newFleet(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		if _, isShare := obj.(*v1alpha1.NodeWorkload); isShare {
			if written++; written == 2 {
				b.change(image(first))
			}
		}
		return nil
	}})
	written = 0
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		image("app:9")(spec)
		spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: new(intstr.FromInt32(5))}}
	})
	if _, _, err := b.reconcile(); err != nil && !strings.Contains(err.Error(), "modified") {
		t.Fatal(err)
	}
	if images := b.images(); images["app:9"] != 2 {
		t.Errorf("images %v, want 2 new ones", images)
	}
}

// A revision that was changed by hand is not used: nothing restarts, and it is made again.
func TestRevisionChangedByHand(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.ManagedWorkloadRevisionSpec){
		"the template": func(spec *v1alpha1.ManagedWorkloadRevisionSpec) { spec.Template.Spec.Containers[0].Image = "evil:1" },
		"a patch of another template": func(spec *v1alpha1.ManagedWorkloadRevisionSpec) {
			spec.UserPatch = `[{"op":"remove","path":"/spec/restartPolicy"}]`
		},
		"a patch that cannot be applied": func(spec *v1alpha1.ManagedWorkloadRevisionSpec) {
			spec.UserPatch = `[{"op":"remove","path":"/no/such"}]`
		},
		"a patch that cannot be read": func(spec *v1alpha1.ManagedWorkloadRevisionSpec) { spec.UserPatch = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFleet(t, interceptor.Funcs{})
			revision := b.revisions()[0]
			edit(&revision.Spec)
			if err := b.client.Update(t.Context(), &revision); err != nil {
				t.Fatal(err)
			}
			b.memories, b.admission = memories{}, admission.NewJudge(b.client, admission.Options{NoTokens: true}) // a new manager
			for range 4 {
				if _, _, err := b.reconcile(); err != nil && !writes.OnlyConflicts(err) {
					t.Fatal(err)
				}
				b.report()
			}
			b.expect("afterwards", b.turn(), map[string]int{first: 5}, "ready", "Current")
			if made := b.revisions(); len(made) != 1 || made[0].Spec.Template.Spec.Containers[0].Image != first || made[0].Spec.UserPatch != "" {
				t.Errorf("revisions %v", made)
			}
			if events := b.drain(eventRevisionEdited); len(events) == 0 {
				t.Error("no event")
			}
		})
	}
}

// A revision that nodes have was deleted by hand: they keep running, and a node that should
// get it waits instead of getting an earlier one.
func TestRevisionDeletedByHand(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(image("app:9"))
	for range 7 {
		b.turn()
	}
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { image("app:10")(spec); spec.Paused = true })
	b.turn()
	for _, revision := range b.revisions() {
		if revision.Spec.Revision == 2 {
			if err := b.client.Delete(t.Context(), &revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n6"}}); err != nil {
		t.Fatal(err)
	}
	b.turn()
	mw := b.turn()
	b.expect("deleted", mw, map[string]int{"app:9": 5}, "paused 0/6", "InProgress")
	if text := message(mw, v1alpha1.ConditionReady); !strings.Contains(text, "1 node waits (RevisionNotFound, since ") {
		t.Errorf("Ready: %s", text)
	}
}

// As long as a workload is paused its new template's placement ends nothing.
func TestPausedPlacement(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.Template.Spec.NodeSelector, spec.Paused = map[string]string{"number": "1"}, true
	})
	b.turn()
	b.turn()
	b.expect("paused", b.turn(), map[string]int{first: 5}, "paused 0/1", "InProgress")
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Paused = false })
	b.turn()
	list := &v1alpha1.NodeWorkloadList{}
	if err := b.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if nw := &list.Items[i]; (nw.DeletionTimestamp == nil) != (nw.Spec.NodeName == "n1") {
			t.Errorf("node %s, deleted %v", nw.Spec.NodeName, nw.DeletionTimestamp)
		}
	}
}

// A template that was taken back is what new nodes get, also while the workload is paused.
func TestTakenBackWhilePaused(t *testing.T) {
	b := newFleet(t, interceptor.Funcs{})
	b.change(image("bad:1"))
	b.turn()
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { image(first)(spec); spec.Paused = true })
	if err := b.client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n6"}}); err != nil {
		t.Fatal(err)
	}
	b.turn()
	b.turn()
	b.expect("taken back", b.turn(), map[string]int{first: 6}, "ready", "Current")
}

// A placement that is taken back while nodes are ended ends no more.
func TestEndsAreAbandoned(t *testing.T) {
	var b *bench
	ended, watching := 0, false
	b = newFleet(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if _, isShare := obj.(*v1alpha1.NodeWorkload); isShare && watching {
			if ended++; ended == 2 {
				b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.Template.Spec.NodeSelector = nil })
			}
		}
		return c.Delete(ctx, obj, opts...)
	}})
	watching = true
	b.change(func(spec *v1alpha1.ManagedWorkloadSpec) {
		spec.Template.Spec.NodeSelector = map[string]string{"no": "node"}
	})
	if _, _, err := b.reconcile(); err != nil && !strings.Contains(err.Error(), "modified") {
		t.Fatal(err)
	}
	if ended != 2 {
		t.Errorf("%d were ended, want 2", ended)
	}
}

// A NodeWorkload that cannot be changed does not keep the others waiting, and is reported.
func TestFailedUpdateHoldsUpNoOther(t *testing.T) {
	stuck := ""
	b := newFleet(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		if nw, isShare := obj.(*v1alpha1.NodeWorkload); isShare {
			if stuck == "" {
				stuck = nw.Name
			}
			if nw.Name == stuck {
				return errors.New("too large")
			}
		}
		return nil
	}})
	b.change(image("app:9"))
	for range 8 {
		_, _, err := b.reconcile()
		if err != nil && !strings.Contains(err.Error(), "too large") {
			t.Fatal(err)
		}
		b.report()
	}
	if images := b.images(); images["app:9"] != 4 {
		t.Errorf("images %v, want 4 new ones", images)
	}
	if events := b.drain(eventFailedUpdate); len(events) == 0 || !strings.Contains(events[0], "Error updating 1 NodeWorkloads: ") {
		t.Errorf("events %q", events)
	}
}

// A change whose answer was lost is not said to have failed: the node waits for something else.
func TestChangeWhoseAnswerIsLost(t *testing.T) {
	lost := false
	b := newFleet(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		nw, isShare := obj.(*v1alpha1.NodeWorkload)
		if !isShare || lost || p.Type() != types.JSONPatchType {
			return nil
		}
		lost = true
		if err := c.Patch(ctx, nw, p, opts...); err != nil {
			return err
		}
		nw.Generation++
		return errors.Join(c.Update(ctx, nw), errors.New("the answer is lost"))
	}})
	b.change(image("bad:1"))
	_, mw, err := b.reconcile()
	if text := message(mw, v1alpha1.ConditionReady); err == nil || !strings.Contains(text, "the change of 1 node failed: n") {
		t.Fatalf("error %v, Ready %q", err, text)
	}
	b.report()
	_, mw, err = b.reconcile()
	if text := message(mw, v1alpha1.ConditionReady); err != nil || strings.Contains(text, "failed") || !strings.Contains(text, "(ImagePullBackOff; no such image, since ") {
		t.Errorf("error %v, Ready %q", err, text)
	}
}

// A label by which an update chooses nodes wakes the workload.
func TestSelectorWakes(t *testing.T) {
	mw := workloadInMemory()
	mw.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{NodeSelector: map[string]string{"canary": "yes"}}}
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}}
	}
	b := newBench(t, interceptor.Funcs{}, mw)
	for name, tc := range map[string]struct {
		now  *corev1.Node
		want int
	}{
		"chosen":        {node(map[string]string{"canary": "yes"}), 1},
		"another label": {node(map[string]string{"a": "b"}), 0},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		b.wakeByNode(t.Context(), q, node(nil), tc.now)
		if got := q.Len(); got != tc.want {
			t.Errorf("%s: %d are woken, want %d", name, got, tc.want)
		}
		q.ShutDown()
	}
}
