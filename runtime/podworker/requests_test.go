// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// asking is an object with a KillRequest for its only container.
func asking(action v1alpha1.RequestAction) func(*template.Workload) {
	return func(nw *template.Workload) {
		nw.Generation++
		nw.Spec.Requests = []v1alpha1.NodeRequest{{
			ID: "k-uid", Name: "k", Action: action, RequestedBy: "alice", Reason: "leaks", Signal: "SIGHUP",
		}}
	}
}

// asked is what is published about the request.
func (n *fakeNode) asked() (phase v1alpha1.RequestPhase, message string) {
	st := n.published("a")
	if len(st.Requests) != 1 {
		return "", ""
	}
	return st.Requests[0].Phase, st.Requests[0].Message
}

// kills are the kills of single containers that were asked of the executor.
func (n *fakeNode) kills() []plan.Kill {
	n.mu.Lock()
	defer n.mu.Unlock()
	var kills []plan.Kill
	for _, r := range n.synced {
		kills = append(kills, r.Actions.ContainersToKill...)
	}
	return kills
}

// A request restarts its container once, whatever happens after that, and the template that
// runs stays the same.
func TestRequestedRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		old, template := n.runs(t, "a"), n.published("a").TemplateHash
		p.Update(workload("a", asking(v1alpha1.RequestRestart)))
		n.settle(time.Second)
		now := n.runs(t, "a")
		if phase, _ := n.asked(); phase != v1alpha1.RequestSucceeded || now == old {
			t.Fatalf("phase %s, %s after %s", phase, now, old)
		}
		if kills := n.kills(); len(kills) != 1 || kills[0].Trigger != v1alpha1.TriggerRestartRequested || kills[0].RequestedBy != "alice" {
			t.Errorf("kills: %+v", kills)
		}
		p.Wake("a")
		n.settle(10 * time.Minute)
		if st := n.published("a"); n.runs(t, "a") != now || st.TemplateHash != template {
			t.Errorf("%s runs after %s, template %s was %s", n.runs(t, "a"), now, st.TemplateHash, template)
		}
		p.Update(workload("a", generation(3)))
		n.settle(time.Second)
		if st := n.published("a"); len(st.Requests) > 0 {
			t.Errorf("what the request came to is kept: %+v", st.Requests)
		}
	})
}

// A shim that ends right after the kill leaves behind which instance it was: the next one
// kills no other.
func TestRequestedRestartIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			for _, k := range r.Actions.ContainersToKill {
				n.pool.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
					ID: "kill", Container: k.Name, ContainerID: k.ID, Trigger: k.Trigger, Phase: v1alpha1.KillPhaseDone, StartTime: metav1.NowMicro(),
				}})
			}
			n.mu.Lock()
			n.run(r)
			n.mu.Unlock()
			<-ctx.Done()
			return plan.SyncOutcome{}
		}
		p.Update(workload("a", asking(v1alpha1.RequestRestart)))
		n.settle(time.Second)
		now := n.runs(t, "a")

		m := restarted(t, n)
		m.apiDown = false
		m.start(t).Update(workload("a", asking(v1alpha1.RequestRestart)))
		m.settle(time.Minute)
		if phase, _ := m.asked(); phase != v1alpha1.RequestSucceeded || m.runs(t, "a") != now || len(m.kills()) > 0 {
			t.Errorf("phase %s, kills %+v", phase, m.kills())
		}
	})
}

// What a request stops stays stopped, also for a shim that comes after and does not reach the
// API server, until the request is gone; then it starts without a back-off.
func TestRequestedStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		stops := func(n *fakeNode) {
			n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(r.Actions.ContainersToKill) > 0 {
					n.stop("a", 0)
					return plan.SyncOutcome{}
				}
				n.run(r)
				return plan.SyncOutcome{}
			}
		}
		stops(n)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", asking(v1alpha1.RequestStop)))
		n.settle(10 * time.Minute)
		st := n.published("a")
		if phase, _ := n.asked(); phase != v1alpha1.RequestHeld || len(n.kills()) != 1 {
			t.Fatalf("phase %s, kills %+v", phase, n.kills())
		}
		held := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionHeld)
		if waiting := st.ContainerStatuses[0].State.Waiting; held == nil || held.Message != "container c: stopped by KillRequest k: leaks" ||
			waiting == nil || waiting.Reason != v1alpha1.ReasonStopRequested || st.Phase != "Running" {
			t.Errorf("phase %s, condition %+v, waiting %+v", st.Phase, held, waiting)
		}

		m := restarted(t, n)
		stops(m)
		next := m.start(t)
		m.settle(10 * time.Minute)
		if len(m.synced) > 0 {
			t.Fatalf("a shim that comes after does something: %+v", m.synced[0].Actions)
		}
		m.mu.Lock()
		m.apiDown = false
		m.mu.Unlock()
		next.Update(workload("a", generation(3)))
		m.settle(time.Second)
		if st := m.published("a"); m.runs(t, "a") == "" || meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionHeld) != nil {
			t.Errorf("it is not let go: %+v", st.Conditions)
		}
	})
}

// The instance that a restart has started is ready while it has to run for a while, also where
// nothing may be done.
func TestRestartedIsReadyWhileNothingMayBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		ready := func() bool { return meta.IsStatusConditionTrue(n.published("a").Conditions, v1alpha1.ConditionReady) }
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", asking(v1alpha1.RequestRestart), func(nw *template.Workload) {
			nw.Spec.Requests[0].UnreadySeconds, nw.Spec.Requests[0].MinStartedSeconds = 5, 3600
		}))
		n.settle(3 * time.Second)
		if ready() {
			t.Fatal("ready before the kill")
		}
		p.SetUsable(Usable{Reason: v1alpha1.ReasonPolicyNotEnforced})
		n.settle(time.Minute)
		if ready() || len(n.kills()) > 0 {
			t.Fatalf("nothing may be done: ready %t, kills %+v", ready(), n.kills())
		}
		p.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
		n.settle(time.Minute)
		p.SetUsable(Usable{Reason: v1alpha1.ReasonPolicyNotEnforced})
		n.settle(time.Minute)
		if phase, _ := n.asked(); !ready() || phase != v1alpha1.RequestInProgress {
			t.Errorf("ready %t, request %s", ready(), phase)
		}
	})
}

// A signal is sent once; one whose sending was cut off is not sent again.
func TestRequestedSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cutOff := range []bool{false, true} {
			n := newFakeNode(t)
			sent := []string{}
			p := n.restoreWith(t, func(cfg *Config) {
				cfg.Signal = func(ctx context.Context, id, signal string) error {
					n.mu.Lock()
					sent = append(sent, id+" "+signal)
					n.mu.Unlock()
					if cutOff {
						<-ctx.Done()
					}
					return ctx.Err()
				}
			})
			n.begin(t)
			p.Update(workload("a"))
			n.settle(time.Second)
			id := n.runs(t, "a")
			p.Update(workload("a", asking(v1alpha1.RequestSignal)))
			if n.settle(time.Second); !cutOff {
				n.settle(10 * time.Minute)
			}
			if len(sent) != 1 || sent[0] != id+" SIGHUP" || len(n.kills()) > 0 {
				t.Errorf("sent %q, kills %+v", sent, n.kills())
			}
			if phase, _ := n.asked(); !cutOff && phase != v1alpha1.RequestSucceeded {
				t.Errorf("phase %s", phase)
			}
			if !cutOff {
				continue
			}
			m := restarted(t, n)
			m.apiDown = false
			next := m.restoreWith(t, func(cfg *Config) {
				cfg.Signal = func(context.Context, string, string) error {
					t.Error("it is sent again")
					return nil
				}
			})
			m.begin(t)
			next.Update(workload("a", asking(v1alpha1.RequestSignal)))
			m.settle(time.Minute)
			if phase, message := m.asked(); phase != v1alpha1.RequestFailed || !strings.Contains(message, "may have been sent") {
				t.Errorf("phase %s, message %q", phase, message)
			}
		}
	})
}
