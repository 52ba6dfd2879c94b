// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// pressure is what a caller such as an eviction asks for.
func pressure() plan.Termination {
	return plan.Termination{
		Override: ptr.To[int64](5), Reason: "Evicted", Message: "The node was low on resource: memory.",
		Condition:   &corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"},
		RequestedBy: "shim (node pressure)",
	}
}

func (n *fakeNode) checkEvicted(phase corev1.PodPhase) {
	n.t.Helper()
	st := n.published("a")
	c := meta.FindStatusCondition(st.Conditions, string(corev1.DisruptionTarget))
	if st.Phase != phase || st.Reason != "Evicted" || st.Message != pressure().Message || c == nil || c.Reason != "TerminationByKubelet" {
		n.t.Errorf("phase %s, reason %q, message %q, conditions %+v", st.Phase, st.Reason, st.Message, st.Conditions)
	}
}

// Any caller can have a workload ended whose object stays: the records and the status
// say why, the caller's grace period counts, and nothing is started again, by the next
// shim neither.
func TestTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		if p.Terminate("b", pressure()) {
			t.Error("a workload without a worker was terminated")
		}
		if !p.Terminate("a", pressure()) {
			t.Fatal("no such worker")
		}
		n.settle(time.Minute)
		if len(n.killed) != 1 {
			t.Fatalf("kills %+v", n.killed)
		}
		k := n.killed[0]
		if k.Trigger != v1alpha1.TriggerTermination || k.RequestedBy != "shim (node pressure)" || k.Message != pressure().Message ||
			*k.Override != (plan.Grace{Seconds: 5, Source: v1alpha1.GraceSourceOverride}) {
			t.Errorf("kill %+v, override %+v", k, k.Override)
		}
		n.checkEvicted(corev1.PodFailed)
		p.Update(workload("a", image("image:2"), generation(2)))
		n.settle(time.Minute)
		m := restarted(t, n)
		m.setAPI(false)
		p = m.start(t)
		p.Update(workload("a", image("image:2"), generation(2)))
		m.settle(time.Hour)
		m.checkEvicted(corev1.PodFailed)
		if len(n.synced) != 1 || len(m.synced) != 0 || m.did("release a") {
			t.Errorf("%d and %d plans were carried out, released: %t", len(n.synced), len(m.synced), m.did("release a"))
		}
		p.Update(workload("a", image("image:2"), generation(2), deleted(nil)))
		m.settle(time.Minute)
		if !m.did("release a") {
			t.Error("not released after its deletion")
		}
	})
}

// An end that is asked for during a sync cancels it; one that is asked for again with a
// shorter grace period shortens the kills under way, and the first still says why.
func TestTerminateDuringASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			n.run(r)
			n.mu.Unlock()
			<-ctx.Done()
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		n.mu.Lock()
		n.killing = func(_ context.Context, r plan.KillRequest) error {
			time.Sleep(time.Minute)
			n.kill(r)
			return nil
		}
		n.mu.Unlock()
		p.Terminate("a", pressure())
		n.settle(time.Second)
		p.Terminate("a", plan.Termination{Override: ptr.To[int64](2), Reason: "Terminated", Message: "later"})
		n.settle(time.Second)
		n.mu.Lock()
		if !slices.Contains(n.shortened, 2) {
			t.Errorf("shortened to %v, want 2 s", n.shortened)
		}
		n.mu.Unlock()
		n.settle(2 * time.Minute)
		n.checkEvicted(corev1.PodFailed)
	})
}

// A probe must not kill what is being ended.
func TestNoProbeKillsDuringATermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		calls := n.log()
		stopped, killed := slices.Index(calls, "stop liveness and startup"), slices.Index(calls, "kill pod")
		if stopped < 0 || stopped > killed {
			t.Errorf("calls %q: want the probes that kill stopped before the kill", calls)
		}
	})
}
