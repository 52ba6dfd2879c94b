// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// killsFail has the node fail each kill, and start what it is to.
func killsFail(n *fakeNode) {
	n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
		out := plan.SyncOutcome{}
		for _, k := range r.Actions.ContainersToKill {
			now := metav1.NowMicro()
			n.pool.Kill(r.Pod.UID, plan.KillProgress{Record: v1alpha1.KillRecord{
				ID: "kill-" + now.String(), Container: k.Name, ContainerID: k.ID, Trigger: k.Trigger, Grace: v1alpha1.KillGrace{Seconds: 30},
				Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeFailed, StartTime: now, FinishTime: &now,
			}})
			out.KillError = "the runtime does not answer"
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		r.Actions.ContainersToKill = nil
		n.run(r)
		return out
	}
}

// A container whose requested kill failed, and whose request is gone, ends as the restart policy
// says; one that ends soon may have got the signal, and starts again.
func TestRequestedKillThatFailedIsForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		phase corev1.PodPhase
	}{
		"it ends soon":  {20 * time.Second, corev1.PodRunning}, // 30 s of grace and 10 s more, from a failure up to 15 s before
		"it ends later": {time.Hour, corev1.PodSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				killsFail(n)
				pool := n.start(t)
				pool.Update(workload("a", policy(corev1.RestartPolicyNever)))
				n.settle(time.Second)
				pool.Update(workload("a", policy(corev1.RestartPolicyNever), asking(v1alpha1.RequestStop)))
				n.settle(time.Minute)
				if len(n.published("a").Kills) == 0 {
					t.Fatal("no kill has failed")
				}
				pool.Update(workload("a", policy(corev1.RestartPolicyNever), generation(3)))
				n.settle(tc.after)
				n.exit("a", 0)
				pool.Wake("a")
				n.settle(time.Second)
				if st := n.published("a"); st.Phase != tc.phase {
					t.Errorf("phase %s, want %s", st.Phase, tc.phase)
				}
			})
		})
	}
}
