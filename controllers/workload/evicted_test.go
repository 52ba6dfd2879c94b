// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// of is the NodeWorkload of a node, nil if it has none.
func (b *bench) of(node string) *v1alpha1.NodeWorkload {
	b.t.Helper()
	mw, nw := workloadInMemory(), &v1alpha1.NodeWorkload{}
	err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: mw.Namespace, Name: placement.NodeWorkloadName(mw.Name, node)}, nw)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return nw
}

// fail ends a NodeWorkload for a reason.
func (b *bench) fail(node, reason string) {
	b.t.Helper()
	nw := b.of(node)
	nw.Status.Phase, nw.Status.Reason, nw.Status.Message = corev1.PodFailed, reason, "too much. "
	meta.SetStatusCondition(&nw.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "PodFailed"})
	if err := b.client.Status().Update(b.t.Context(), nw); err != nil {
		b.t.Fatal(err)
	}
}

// replaces reports whether the manager replaces what was on a node now, with the shim's help.
func (b *bench) replaces(node string) bool {
	b.t.Helper()
	b.mustReconcile()
	nw := b.of(node)
	if nw == nil || nw.DeletionTimestamp == nil {
		return false
	}
	nw.Finalizers = nil
	if err := b.client.Update(b.t.Context(), nw); err != nil {
		b.t.Fatal(err)
	}
	b.turnAround()
	now := b.of(node)
	if now == nil || now.Status.Phase != "" {
		b.t.Fatal("not made again")
	}
	b.reportOf(now)
	b.turnAround()
	return true
}

// turnAround reconciles after the watch has shown that an object is gone: it has no version of
// its own in memory.
func (b *bench) turnAround() {
	b.t.Helper()
	known := b.memories.of(b.workload())
	known.wrote = written{}
	b.memories.keep(b.workload(), known)
	b.mustReconcile()
}

func (b *bench) mustReconcile() (time.Duration, *v1alpha1.ManagedWorkload) {
	b.t.Helper()
	result, mw, err := b.reconcile()
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter, mw
}

// What was evicted is made again as a DaemonSet makes a failed Pod: at once, then after 1 s,
// doubling to 15 min; the status says when. A changed workload starts over.
func TestEvictedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		var waits []time.Duration
		for range 13 {
			b.fail("n1", "Evicted")
			began := time.Now()
			for !b.replaces("n1") {
				wake, mw := b.mustReconcile()
				if at := time.Now().Add(wake).UTC().Format(time.RFC3339); !strings.Contains(message(mw, v1alpha1.ConditionReady), "n1: Evicted: too much. ; will be replaced at "+at) {
					t.Fatalf("Ready: %s, want n1 replaced at %s", message(mw, v1alpha1.ConditionReady), at)
				}
				time.Sleep(wake)
			}
			waits = append(waits, time.Since(began).Round(time.Second))
		}
		for i, got := range waits {
			want := time.Duration(0)
			if i > 0 {
				want = min(time.Second<<(i-1), 15*time.Minute)
			}
			if got != want {
				t.Errorf("wait %d: %v, want %v", i, got, want)
			}
		}
		b.fail("n1", "Evicted")
		b.change(func(spec *v1alpha1.ManagedWorkloadSpec) { spec.MinReadySeconds = 1 })
		if !b.replaces("n1") {
			t.Error("a changed workload waits for the back-off of the one before")
		}
	})
}

// A node that ends for a shutdown what it is given, again and again, without a word in its Lease,
// gets another one at once, then after 1 s, doubling.
func TestShutDownAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		for _, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
			b.fail("n1", "Terminated")
			began := time.Now()
			for !b.replaces("n1") {
				wake, mw := b.mustReconcile()
				if got := message(mw, v1alpha1.ConditionReady); !strings.Contains(got, "n1: Terminated: too much. ; will be replaced at ") {
					t.Fatalf("Ready: %s", got)
				}
				time.Sleep(wake)
			}
			if got := time.Since(began).Round(time.Second); got != want {
				t.Errorf("replaced after %v, want %v", got, want)
			}
		}
	})
}

// A manager that has just begun knows no back-off: what was evicted soon after it was made
// waits for as long as that took, and only once. What a reboot ended does not.
func TestEvictedBeforeTheManagerBegan(t *testing.T) {
	for name, tt := range map[string]struct {
		reason    string
		ran, want time.Duration
	}{
		"soon":             {"Evicted", time.Minute, time.Minute},
		"after hours":      {"Evicted", 3 * time.Hour, 0},
		"soon, a shutdown": {"Terminated", time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFleet(t, interceptor.Funcs{})
				nw := b.of("n1")
				nw.CreationTimestamp = metav1.Now()
				if err := b.client.Update(t.Context(), nw); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.ran)
				b.memories.forget(client.ObjectKeyFromObject(b.workload()))
				b.fail("n1", tt.reason)
				began := time.Now()
				for !b.replaces("n1") {
					wake, _ := b.mustReconcile()
					time.Sleep(wake)
				}
				if got := time.Since(began).Round(time.Second); got != tt.want {
					t.Errorf("replaced after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// NodeWorkloads that failed for another reason stay: they may fail again.
func TestOthersThatFailedStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		for node, reason := range map[string]string{"n1": "", "n2": "DeadlineExceeded"} {
			b.fail(node, reason)
			if b.replaces(node) {
				t.Errorf("%s was replaced, reason %q", node, reason)
			}
		}
	})
}

// A node that was evicted is unavailable: a roll-out changes no other beside it.
func TestEvictedTakesUpBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		b.fail("n1", "Evicted")
		b.change(image("app:9"))
		b.mustReconcile()
		if images := b.images(); images["app:9"] != 0 {
			t.Errorf("images %v, want none changed beside the node that was evicted", images)
		}
		if !b.replaces("n1") {
			t.Fatal("not replaced")
		}
		if got := b.of("n1").Spec.Template.Spec.Containers[0].Image; got != "app:9" {
			t.Errorf("made again with %s, want the update", got)
		}
	})
}

// What a shutdown of its node ended is made again once its containers have ended and the node is
// back.
func TestShutDownIsReplacedWhenTheNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFleet(t, interceptor.Funcs{})
		lease := func(until time.Duration) {
			t.Helper()
			l := managertest.LeaseOf("n1", time.Now())
			l.Annotations = map[string]string{v1alpha1.AnnotationShutdownUntil: time.Now().Add(until).UTC().Format(time.RFC3339)}
			if err := client.IgnoreNotFound(b.client.Delete(t.Context(), l.DeepCopy())); err != nil {
				t.Fatal(err)
			}
			if err := b.client.Create(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			lease(time.Minute)
			b.fail("n1", "Terminated")
			if b.replaces("n1") {
				t.Fatal("replaced while its node shuts down")
			}
			_, mw := b.mustReconcile()
			if got := message(mw, v1alpha1.ConditionReady); !strings.Contains(got, "n1: Terminated: too much. ; will be replaced when the node is back") {
				t.Errorf("Ready: %s", got)
			}
			time.Sleep(time.Hour)
			lease(-time.Minute) // the shim renews after that time
			nw := b.of("n1")
			nw.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			if err := b.client.Status().Update(t.Context(), nw); err != nil {
				t.Fatal(err)
			}
			if b.replaces("n1") {
				t.Fatal("replaced while a container runs")
			}
			nw = b.of("n1")
			nw.Status.ContainerStatuses = nil
			if err := b.client.Status().Update(t.Context(), nw); err != nil {
				t.Fatal(err)
			}
			if !b.replaces("n1") {
				t.Fatal("not replaced when the node was back")
			}
		}
	})
}
