// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// tooMuch is above what the node of these tests allows.
const tooMuch = "image:large"

const aboveBounds = "spec.template.spec.containers[0].image: above the bound"

func withBounds(cfg *Config) {
	cfg.Exceeds = func(pod *corev1.Pod) string {
		if pod.Spec.Containers[0].Image == tooMuch {
			return aboveBounds
		}
		return ""
	}
}

func checkAboveBounds(t *testing.T, n *fakeNode, when string) {
	t.Helper()
	st := n.published("a")
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTemplateAccepted)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonAboveNodeBounds || c.Message != aboveBounds {
		t.Errorf("%s: condition %+v", when, c)
	}
}

// A template above the bounds of the node changes nothing on it: what was accepted is
// kept running, and a workload that is new is not started.
func TestTemplateAboveTheBoundsIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.restoreWith(t, withBounds)
		n.begin(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", generation(2), image(tooMuch)))
		n.settle(time.Minute)
		checkAboveBounds(t, n, "after the change")
		if st := n.published("a"); len(n.synced) != 1 || len(n.killed) != 0 || st.Phase != corev1.PodRunning {
			t.Errorf("%d plans, pod kills %+v, phase %s", len(n.synced), n.killed, st.Phase)
		}
		n.exit("a", 1)
		p.Wake("a")
		n.settle(time.Minute)
		if n.did("start c "+tooMuch) || len(n.synced) < 2 {
			t.Errorf("calls %q, want a restart of what was accepted", n.log())
		}
		p.Update(workload("b", image(tooMuch)))
		n.settle(time.Minute)
		if st := n.published("b"); n.did("start c "+tooMuch) || st.Phase != corev1.PodPending {
			t.Errorf("calls %q, phase %s", n.log(), st.Phase)
		}
	})
}

// A workload that runs when the node begins to allow less stays as it is: it is neither
// killed nor started again, until its template asks for less.
func TestWorkloadAboveNewBoundsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		nw := workload("a", image(tooMuch))
		pod := template.Pod(nw)
		if err := n.store.Save(&Checkpoint{Version: checkpointVersion, Identity: Identity{UID: "a", Namespace: nw.Namespace, Name: nw.Name}, State: Syncing, Pod: pod, Generation: nw.Generation}); err != nil {
			t.Fatal(err)
		}
		n.pods["a"] = &fakePod{sandbox: "s", containers: []plan.ContainerStatus{{
			ID: "c-1", Name: "c", SandboxID: "s", Image: tooMuch, State: plan.ContainerRunning,
			Hash: plan.HashContainer(&pod.Spec.Containers[0]), StartedAt: time.Now(), CreatedAt: time.Now(),
		}}}
		p := n.restoreWith(t, withBounds)
		n.begin(t)
		n.settle(time.Minute)
		checkAboveBounds(t, n, "before the API server answers")
		p.Update(nw)
		n.settle(time.Minute)
		n.exit("a", 1)
		p.Wake("a")
		n.settle(time.Hour)
		checkAboveBounds(t, n, "after its end")
		if len(n.synced) != 0 || len(n.killed) != 0 {
			t.Errorf("plans %+v, pod kills %+v, want none", n.synced, n.killed)
		}
		p.Update(workload("a", generation(2)))
		n.settle(time.Minute)
		st := n.published("a")
		if !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionTemplateAccepted) || st.Phase != corev1.PodRunning {
			t.Errorf("status %+v with less", st)
		}
	})
}

// A workload above the bounds ends like any other.
func TestWorkloadAboveTheBoundsCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.restoreWith(t, withBounds)
		n.begin(t)
		p.Update(workload("a", image(tooMuch)))
		n.settle(time.Second)
		p.Update(workload("a", image(tooMuch), deleted(nil), generation(2)))
		n.settle(time.Minute)
		if !n.did("release a") {
			t.Errorf("calls %q", n.log())
		}
	})
}
