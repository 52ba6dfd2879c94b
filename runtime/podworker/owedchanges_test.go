// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// followsAndSucceeds checks that another instance runs after a while, and that its end is that of the workload.
func (n *fakeNode) followsAndSucceeds(t *testing.T, pool *Pool, old string) {
	t.Helper()
	n.settle(10 * time.Minute)
	if now := n.runs(t, "a"); now == "" || now == old {
		t.Errorf("%q runs", now)
	}
	n.exit("a", 0)
	pool.Wake("a")
	n.settle(time.Second)
	if st := n.published("a"); st.Phase != corev1.PodSucceeded {
		t.Errorf("The instance that follows has ended, and the workload is %s", st.Phase)
	}
}

// What a change has killed is started as long as that fails, whatever the restart policy, also when
// the change is taken back or another one comes; what has started since ends as its policy says.
func TestChangeThatFailsToStart(t *testing.T) {
	for name, next := range map[string]string{"the change stays": "b:1", "it is taken back": "a:1", "another one comes": "c:1"} {
		for _, p := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
			t.Run(name+", "+string(p), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newFakeNode(t)
					f := failing(n)
					pool := n.start(t)
					pool.Update(workload("a", policy(p), image("a:1")))
					n.settle(time.Second)
					old := n.runs(t, "a")
					f.missing.Store(true)
					pool.Update(workload("a", policy(p), image("b:1"), generation(2)))
					n.settle(time.Minute)
					if phase := n.published("a").Phase; phase != corev1.PodRunning || len(n.published("a").Kills) != 1 {
						t.Fatalf("phase %s, kills %v", phase, n.published("a").Kills)
					}
					pool.Update(workload("a", policy(p), image(next), generation(3)))
					n.settle(time.Minute)
					f.missing.Store(false)
					f.broken.Store(true)
					n.settle(10 * time.Minute)
					if phase := n.published("a").Phase; phase != corev1.PodRunning || n.waitsWith() != "RunContainerError" {
						t.Fatalf("phase %s, waits %q", phase, n.waitsWith())
					}
					f.broken.Store(false)
					n.followsAndSucceeds(t, pool, old)
				})
			})
		}
	}
}

// A change of the pod as a whole does the same where its sandbox cannot be made.
func TestChangeWhoseSandboxFails(t *testing.T) {
	for name, next := range map[string]func(*template.Workload){
		"the change stays": onTheHost, "it is taken back": func(*template.Workload) {}, "another one comes": image("c:1"),
	} {
		for _, p := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
			t.Run(name+", "+string(p), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newFakeNode(t)
					var broken atomic.Bool
					n.syncing = func(ctx context.Context, r plan.SyncRequest) plan.SyncOutcome {
						if r.Actions.KillPod {
							n.kill(plan.KillRequest{Pod: r.Pod, Observed: r.Observed, Trigger: r.Actions.Trigger, Message: r.Actions.Message, Override: &plan.Grace{}})
							if err := n.StopSandbox(ctx, r.Actions.SandboxID); err != nil {
								return plan.SyncOutcome{Err: err}
							}
						}
						if r.Actions.CreateSandbox && broken.Load() {
							return plan.SyncOutcome{Err: errors.New("no network")}
						}
						n.mu.Lock()
						defer n.mu.Unlock()
						n.run(r)
						if p := n.pods[r.Pod.UID]; r.Actions.CreateSandbox {
							p.stopped, p.onTheHost = false, r.Pod.Spec.HostNetwork
						}
						return plan.SyncOutcome{}
					}
					pool := n.start(t)
					pool.Update(workload("a", policy(p), image("a:1")))
					n.settle(time.Second)
					old := n.runs(t, "a")
					broken.Store(true)
					pool.Update(workload("a", policy(p), image("a:1"), onTheHost, generation(2)))
					n.settle(time.Minute)
					pool.Update(workload("a", policy(p), image("a:1"), next, generation(3)))
					n.settle(time.Minute)
					if st := n.published("a"); plan.Ended(st.Phase) || len(st.Kills) != 1 {
						t.Fatalf("phase %s, kills %v", st.Phase, st.Kills)
					}
					broken.Store(false)
					n.followsAndSucceeds(t, pool, old)
				})
			})
		}
	}
}

// A shim that comes after starts what a change has killed, also with nothing but the records and
// the status, and a deletion ends it.
func TestChangeIsStartedByTheNextShim(t *testing.T) {
	for name, tc := range map[string]struct {
		lost   bool
		change func(*template.Workload)
		runs   bool
	}{
		"with its checkpoint":    {runs: true},
		"without its checkpoint": {lost: true, runs: true},
		"it is deleted":          {change: deleted(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				f := failing(n)
				pool := n.start(t)
				never := policy(corev1.RestartPolicyNever)
				pool.Update(workload("a", never, image("a:1")))
				n.settle(time.Second)
				f.missing.Store(true)
				pool.Update(workload("a", never, image("b:1"), generation(2)))
				n.settle(time.Minute)
				status := n.published("a")

				m := restarted(t, n)
				m.apiDown = false
				failing(m)
				n.mu.Lock()
				m.synced = append(m.synced, n.synced...) // instances are named by that
				n.mu.Unlock()
				if tc.lost {
					m.forget(t)
				}
				later := m.start(t)
				changes := []func(*template.Workload){never, image("b:1"), generation(3), func(nw *template.Workload) { nw.Status = status }}
				if tc.change != nil {
					changes = append(changes, tc.change)
				}
				later.Update(workload("a", changes...))
				m.settle(10 * time.Minute)
				m.mu.Lock()
				defer m.mu.Unlock()
				running := false
				if pod := m.pods["a"]; pod != nil {
					running = slices.ContainsFunc(pod.containers, func(c plan.ContainerStatus) bool { return c.State == plan.ContainerRunning })
				}
				if running != tc.runs {
					t.Errorf("it runs: %t, want %t", running, tc.runs)
				}
			})
		})
	}
}
