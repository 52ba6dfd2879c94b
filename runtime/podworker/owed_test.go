// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
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

func policy(p corev1.RestartPolicy) func(*template.Workload) {
	return func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = p }
}

// startsFail has the node kill what it is asked to, and start something only while the image is
// there. Never started leaves an instance behind as a runtime does that could not start one.
type startsFail struct {
	n *fakeNode
	// missing: the image is not there. broken: the runtime cannot start what it has created.
	missing, broken atomic.Bool
}

func (f *startsFail) sync(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
	for _, k := range r.Actions.ContainersToKill {
		rec := v1alpha1.KillRecord{
			ID: "kill-" + k.ID, Container: k.Name, ContainerID: k.ID, Trigger: k.Trigger, RequestedBy: k.RequestedBy,
			Phase: v1alpha1.KillPhaseStopping, StartTime: metav1.NowMicro(),
		}
		f.n.pool.Kill(r.Pod.UID, plan.KillProgress{Record: rec})
		f.n.exit(r.Pod.UID, 0)
		rec.Phase, rec.Outcome = v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeGraceful
		f.n.pool.Kill(r.Pod.UID, plan.KillProgress{Record: rec})
	}
	if len(r.Actions.ContainersToStart) == 0 {
		return plan.SyncOutcome{}
	}
	if f.missing.Load() {
		tried := plan.Reason{Reason: "ErrImagePull", Message: "no such image"}
		return plan.SyncOutcome{Err: errors.New("no such image"), Tried: map[string]plan.Reason{"c": tried}}
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	r.Actions.ContainersToKill = nil
	f.n.run(r)
	if !f.broken.Load() {
		return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {}}}
	}
	c := &f.n.pods[r.Pod.UID].containers[0]
	c.State, c.StartedAt, c.FinishedAt, c.ExitCode, c.Reason = plan.ContainerExited, time.Time{}, time.Now(), 128, "StartError"
	tried := plan.Reason{Reason: "RunContainerError", Message: "cannot start"}
	return plan.SyncOutcome{Err: errors.New("cannot start"), Tried: map[string]plan.Reason{"c": tried}}
}

func failing(n *fakeNode) *startsFail {
	f := &startsFail{n: n}
	n.syncing = f.sync
	return f
}

// waitsWith is why the only container waits, "" if it does not.
func (n *fakeNode) waitsWith() string {
	st := n.published("a")
	if len(st.ContainerStatuses) == 1 && st.ContainerStatuses[0].State.Waiting != nil {
		return st.ContainerStatuses[0].State.Waiting.Reason
	}
	return ""
}

// What a requested restart has killed is started as long as that fails, whatever the restart
// policy, and the request is done only when another instance runs.
func TestRequestedRestartThatFailsToStart(t *testing.T) {
	for _, p := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			f := failing(n)
			pool := n.start(t)
			pool.Update(workload("a", policy(p)))
			n.settle(time.Second)
			old := n.runs(t, "a")
			f.missing.Store(true)
			pool.Update(workload("a", policy(p), asking(v1alpha1.RequestRestart)))
			n.settle(time.Minute)
			if phase, _ := n.asked(); phase != v1alpha1.RequestInProgress || n.waitsWith() != "ErrImagePull" || n.published("a").Phase != corev1.PodRunning {
				t.Fatalf("%s: phase %s, waits %q, request %s", p, n.published("a").Phase, n.waitsWith(), phase)
			}
			f.missing.Store(false)
			f.broken.Store(true)
			n.settle(10 * time.Minute)
			if phase, _ := n.asked(); phase != v1alpha1.RequestInProgress || n.waitsWith() != "RunContainerError" || n.published("a").Phase != corev1.PodRunning {
				t.Fatalf("%s: phase %s, waits %q, request %s", p, n.published("a").Phase, n.waitsWith(), phase)
			}
			f.broken.Store(false)
			n.settle(10 * time.Minute)
			if phase, _ := n.asked(); phase != v1alpha1.RequestSucceeded || n.runs(t, "a") == old {
				t.Errorf("%s: request %s, runs %s", p, phase, n.runs(t, "a"))
			}
			if kills := n.published("a").Kills; len(kills) != 1 || kills[0].RequestedBy != "alice" || kills[0].Outcome != v1alpha1.KillOutcomeGraceful {
				t.Errorf("%s: kills %+v", p, kills)
			}
			n.exit("a", 0)
			pool.Wake("a")
			n.settle(time.Second)
			if st := n.published("a"); st.Phase != corev1.PodSucceeded {
				t.Errorf("%s: the instance that follows has ended, and the workload is %s", p, st.Phase)
			}
		})
	}
}

// A shim that finds what a request has killed starts it, also where the request is gone, or its
// deadline has passed.
func TestRequestedRestartIsRemembered(t *testing.T) {
	for name, next := range map[string]func(*template.Workload){
		"the request is there": asking(v1alpha1.RequestRestart),
		"the request is gone":  generation(3),
		"its deadline has passed": func(nw *template.Workload) {
			asking(v1alpha1.RequestRestart)(nw)
			nw.Spec.Requests[0].Deadline = new(metav1.NewTime(time.Now().Add(-time.Second)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			f := failing(n)
			pool := n.start(t)
			pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
			n.settle(time.Second)
			old := n.runs(t, "a")
			f.missing.Store(true)
			pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestRestart)))
			n.settle(time.Second)

			m := restarted(t, n)
			g := failing(m)
			g.missing.Store(true)
			later := m.start(t)
			m.settle(time.Minute)
			m.mu.Lock()
			m.apiDown = false
			m.mu.Unlock()
			later.Update(workload("a", policy(corev1.RestartPolicyNever), next))
			m.settle(time.Minute)
			if st := m.published("a"); st.Phase != corev1.PodRunning || m.waitsWith() != "ErrImagePull" {
				t.Fatalf("%s: phase %s, waits %q", name, st.Phase, m.waitsWith())
			}
			g.missing.Store(false)
			m.settle(10 * time.Minute)
			if now := m.runs(t, "a"); now == "" || now == old {
				t.Errorf("%s: %q runs", name, now)
			}
			if kills := m.published("a").Kills; len(kills) != 1 || kills[0].RequestedBy != "alice" || kills[0].Phase != v1alpha1.KillPhaseDone {
				t.Errorf("%s: kills %+v", name, kills)
			}
		})
	}
}

// A shim that ends during the kill leaves it to the next one, which finishes it and starts
// another instance.
func TestRequestedKillIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		pool := n.start(t)
		pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
		n.settle(time.Second)
		old := n.runs(t, "a")
		n.mu.Lock()
		n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
			for _, k := range r.Actions.ContainersToKill {
				n.pool.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
					ID: "kill", Container: k.Name, ContainerID: k.ID, Trigger: k.Trigger, RequestedBy: k.RequestedBy,
					Phase: v1alpha1.KillPhaseStopping, StartTime: metav1.NowMicro(),
				}})
			}
			<-ctx.Done()
			return plan.SyncOutcome{}
		}
		n.mu.Unlock()
		pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestRestart)))
		n.settle(time.Second)

		m := restarted(t, n)
		m.apiDown = false
		failing(m)
		m.synced = make([]plan.SyncRequest, 8) // instances are named by that
		m.resuming = func([]plan.KillProgress) error { m.exit("a", 0); return nil }
		later := m.start(t)
		later.Update(workload("a", policy(corev1.RestartPolicyNever), generation(3))) // the request is gone
		m.settle(time.Minute)
		st := m.published("a")
		if now := m.runs(t, "a"); now == old || st.Phase != corev1.PodRunning {
			t.Errorf("%s runs after %s, phase %s", now, old, st.Phase)
		}
		if len(st.Kills) != 1 || st.Kills[0].RequestedBy != "alice" || st.Kills[0].Outcome != v1alpha1.KillOutcomeGraceful || st.KillCount != 1 {
			t.Errorf("kills %+v", st.Kills)
		}
	})
}

// A deadline that passes between the kill and the start is said, and the start is tried
// again until it works.
func TestDeadlineBetweenKillAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		f := failing(n)
		pool := n.start(t)
		pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
		n.settle(time.Second)
		f.missing.Store(true)
		pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestRestart), func(nw *template.Workload) {
			nw.Spec.Requests[0].Deadline = new(metav1.NewTime(time.Now().Add(time.Minute)))
		}))
		n.settle(5 * time.Minute)
		phase, message := n.asked()
		if phase != v1alpha1.RequestFailed || !strings.Contains(message, "not done before the deadline; another instance is started") {
			t.Errorf("request %s: %s", phase, message)
		}
		if st := n.published("a"); st.Phase != corev1.PodRunning || n.waitsWith() != "ErrImagePull" {
			t.Fatalf("phase %s, waits %q", st.Phase, n.waitsWith())
		}
		f.missing.Store(false)
		n.settle(10 * time.Minute)
		n.runs(t, "a")
	})
}

// What a stop has killed starts when the request is deleted, whatever the restart policy.
func TestRequestedStopIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		failing(n)
		pool := n.start(t)
		pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
		n.settle(time.Second)
		pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestStop)))
		n.settle(time.Minute)
		if phase, _ := n.asked(); phase != v1alpha1.RequestHeld {
			t.Fatalf("request %s", phase)
		}
		pool.Update(workload("a", policy(corev1.RestartPolicyNever), generation(3)))
		n.settle(time.Second)
		if st := n.published("a"); st.Phase != corev1.PodRunning || n.runs(t, "a") == "" {
			t.Errorf("phase %s", st.Phase)
		}
	})
}

// A hold lasts while a shim that comes after may not start anything, or does not reach the
// runtime.
func TestHoldLastsWhileTheRuntimeIsNotUsable(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonPolicyNotEnforced, v1alpha1.ReasonRuntimeNotReady} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t)
			failing(n)
			pool := n.start(t)
			pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
			n.settle(time.Second)
			pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestStop)))
			n.settle(time.Second)

			m := restarted(t, n)
			m.apiDown = false
			failing(m)
			later := m.restore(t)
			m.beginWith(t, Usable{Reason: reason})
			later.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestStop)))
			m.settle(10 * time.Minute)
			st := m.published("a")
			if m.waitsWith() != v1alpha1.ReasonStopRequested || st.Phase != corev1.PodRunning || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionHeld) {
				t.Fatalf("%s: phase %s, waits %q, conditions %+v", reason, st.Phase, m.waitsWith(), st.Conditions)
			}
			later.SetUsable(Usable{OK: true, Reason: v1alpha1.ReasonRuntimeReady})
			m.settle(10 * time.Minute)
			if phase, _ := m.asked(); phase != v1alpha1.RequestHeld || len(m.synced) > 0 {
				t.Errorf("%s: request %s, %d syncs", reason, phase, len(m.synced))
			}
			later.Update(workload("a", policy(corev1.RestartPolicyNever), generation(3)))
			m.settle(time.Second)
			m.runs(t, "a")
		})
	}
}
