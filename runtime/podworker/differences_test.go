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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A wait is reported when it begins, not by the sync that ends it.
func TestCrashLoopBackOffIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		n.exit("a", 1)
		n.mu.Lock()
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			return plan.SyncOutcome{
				BackoffUntil: time.Now().Add(time.Hour),
				Tried:        map[string]plan.Reason{"c": {Reason: "CrashLoopBackOff", Message: "back-off 1h"}},
			}
		}
		n.mu.Unlock()
		p.Wake("a")
		n.settle(time.Second)
		st := n.published("a")
		if w := st.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CrashLoopBackOff" || len(n.synced) != 2 {
			t.Errorf("state %+v after %d syncs", st.ContainerStatuses[0].State, len(n.synced))
		}
	})
}

// A field of a template may change both ways.
func TestActiveDeadlineMayGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(seconds int64) func(*template.Workload) {
			return func(nw *template.Workload) { nw.Template.Spec.ActiveDeadlineSeconds = ptr.To(seconds) }
		}
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", limit(40)))
		n.settle(30 * time.Second)
		p.Update(workload("a", limit(80), generation(2)))
		n.settle(45 * time.Second)
		if len(n.killed) != 0 {
			t.Fatal("killed by a deadline that was put off")
		}
		p.Update(workload("a", limit(76), generation(3)))
		n.settle(3 * time.Second)
		if st := n.published("a"); len(n.killed) != 1 || st.Reason != "DeadlineExceeded" {
			t.Errorf("%d kills, reason %q", len(n.killed), st.Reason)
		}
	})
}

// A sidecar is removed with its lost sandbox. What it exited with is seen while the
// sync continues, and stays the last state of the next instance.
func TestLastStateOfALostSidecar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sidecar := func(nw *template.Workload) {
			nw.Template.Spec.InitContainers = []corev1.Container{
				{Name: "s", Image: "image:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
			}
		}
		n := newFakeNode(t)
		p := n.start(t)
		// runs puts the instance of both containers on the node, and no other.
		runs := func(r plan.SyncRequest, id string) {
			n.pods["a"] = &fakePod{sandbox: "sandbox-" + id}
			for _, c := range append(r.Pod.Spec.Containers, r.Pod.Spec.InitContainers...) {
				n.pods["a"].containers = append(n.pods["a"].containers, plan.ContainerStatus{
					ID: c.Name + "-" + id, Name: c.Name, SandboxID: "sandbox-" + id, Image: c.Image, Hash: plan.HashContainer(&c),
					State: plan.ContainerRunning, CreatedAt: time.Now(), StartedAt: time.Now(),
				})
			}
		}
		lost := false
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			if !lost {
				runs(r, "1")
				return plan.SyncOutcome{}
			}
			n.stop("a", 7)
			n.mu.Unlock()
			time.Sleep(busyRefresh)
			p.Wake("a")
			time.Sleep(busyRefresh)
			n.mu.Lock()
			runs(r, "2")
			return plan.SyncOutcome{}
		}
		p.Update(workload("a", sidecar))
		n.settle(time.Second)
		n.mu.Lock()
		lost = true
		n.pods["a"].sandbox = ""
		n.mu.Unlock()
		p.Wake("a")
		n.settle(time.Minute)
		s := n.published("a").InitContainerStatuses[0]
		if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 7 || s.State.Running == nil {
			t.Errorf("sidecar %+v", s)
		}
	})
}

// A kill of an ordinary sync under way has no more time than the deletion that
// arrives meanwhile.
func TestDeletionShortensAKillOfASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		killed := make(chan struct{})
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			<-killed // a kill continues, whether or not the sync does
			return plan.SyncOutcome{}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Update(workload("a", deleted(ptr.To[int64](7))))
		n.settle(time.Second)
		if !slices.Contains(n.shortened, 7) || len(n.killed) != 0 {
			t.Errorf("shortened to %v, %d pod kills: want the kill under way to have 7 s", n.shortened, len(n.killed))
		}
		close(killed)
	})
}

// News of the runtime during kills reaches them: what has exited needs no hook any more.
func TestExitsDuringAKillAreNoted(t *testing.T) {
	wait := func(ctx context.Context) { <-ctx.Done() }
	for name, begin := range map[string]func(n *fakeNode, p *Pool){
		"of a sync": func(n *fakeNode, p *Pool) {
			n.syncing = func(ctx context.Context, _ plan.SyncRequest) plan.SyncOutcome { wait(ctx); return plan.SyncOutcome{} }
			p.Update(workload("a"))
		},
		"of the workload": func(n *fakeNode, p *Pool) {
			n.killing = func(ctx context.Context, _ plan.KillRequest) error { wait(ctx); return ctx.Err() }
			p.Update(workload("a"))
			n.settle(time.Second)
			p.Update(workload("a", deleted(nil)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				p := n.start(t)
				begin(n, p)
				n.settle(time.Second)
				n.mu.Lock()
				before := n.exitsNoted
				n.mu.Unlock()
				p.Wake("a")
				n.settle(time.Millisecond)
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.exitsNoted != before+1 {
					t.Errorf("the kills were told %d times, want once", n.exitsNoted-before)
				}
			})
		})
	}
}

// The shim that comes after must know of a kill whether or not this one ends in order.
func TestKillIsKeptBeforeItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		p.Kill("a", plan.KillProgress{Record: v1alpha1.KillRecord{
			ID: "1", Container: "c", Trigger: v1alpha1.TriggerLivenessProbe, Phase: v1alpha1.KillPhasePreStop, StartTime: metav1.NowMicro(),
		}})
		left, err := n.store.Load()
		if err != nil || len(left) != 1 || len(left[0].Status.Kills) != 1 || left[0].Status.Kills[0].ID != "1" {
			t.Errorf("checkpoints %+v, error %v", left, err)
		}
	})
}
