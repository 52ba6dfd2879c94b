// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A workload that ended by itself gives back its volumes and its cgroup, again until that
// succeeds, and nothing else. (kubelet kubelet.go:SyncTerminatedPod)
func TestEndedGivesBackItsVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		n.releaseErr = errors.New("device or resource busy")
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Second)
		if n.did("release volumes") {
			t.Error("given back while it runs")
		}
		n.exit("a", 0)
		p.Wake("a")
		n.settle(time.Minute)
		count := func() int {
			return len(slices.DeleteFunc(n.log(), func(c string) bool { return c != "release volumes" }))
		}
		if tries := count(); tries < 3 || tries > 7 {
			t.Errorf("%d tries in a minute, want one each 10 s to 15 s", tries)
		}
		n.mu.Lock()
		n.releaseErr = nil
		n.mu.Unlock()
		n.settle(time.Minute)
		before := count()
		n.settle(24 * time.Hour)
		if count() != before || n.did("remove directories") {
			t.Errorf("%d releases after it succeeded, calls %q", count()-before, n.log())
		}
		p.Update(workload("a", never, deleted(nil)))
		n.settle(time.Minute)
		if !n.did("remove directories") || !n.did("release a") {
			t.Errorf("calls %q", n.log())
		}
	})
}

// A volume that the template loses is unmounted although no container is started for that.
func TestLostVolumeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		volume := func(nw *template.Workload) {
			nw.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", volume))
		n.settle(time.Minute)
		if len(n.prepared) != 0 {
			t.Errorf("%d times brought up to date beside the start", len(n.prepared))
		}
		p.Update(workload("a", generation(2)))
		n.settle(time.Minute)
		if len(n.prepared) != 1 || len(n.prepared[0].Spec.Volumes) != 0 || len(n.synced) != 1 {
			t.Errorf("prepared %d times, %d plans carried out", len(n.prepared), len(n.synced))
		}
	})
}

// Files of volumes follow new labels although nothing restarts for them, and are known to
// a new process although nothing is started.
func TestFilesFollowTheMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		p.Update(workload("a", generation(2), func(nw *template.Workload) { nw.Template.Labels = map[string]string{"new": "label"} }))
		n.settle(time.Minute)
		if n.followed == nil || n.followed.Labels["new"] != "label" || len(n.synced) != 1 {
			t.Errorf("followed %v after %d plans, want the new label after one", n.followed, len(n.synced))
		}
	})
}

// What is observed about volumes and cgroup is said, as long as it is so.
func TestConditionsOfThePodDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Second)
		set := func(conditions ...corev1.PodCondition) *string {
			n.mu.Lock()
			n.podDirConditions = conditions
			n.mu.Unlock()
			p.Wake("a")
			n.settle(time.Second)
			if c := meta.FindStatusCondition(n.published("a").Conditions, v1alpha1.ConditionVolumeSizePending); c != nil {
				return &c.Message
			}
			return nil
		}
		pending := corev1.PodCondition{Type: v1alpha1.ConditionVolumeSizePending, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}
		if got := set(pending); got == nil || *got != "m" {
			t.Errorf("conditions %+v", n.published("a").Conditions)
		}
		if got := set(); got != nil {
			t.Errorf("conditions %+v once it is over", n.published("a").Conditions)
		}
	})
}

// What is proved about the pod's cgroup reaches the plan, and nothing else does.
func TestContainersOutsideTheirCgroupAreKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(10 * time.Minute)
		for _, r := range n.synced {
			if r.Actions.KillPod && r.Actions.Trigger != v1alpha1.TriggerSandboxChanged {
				t.Errorf("killed without proof: %+v", r.Actions)
			}
		}
		before := len(n.synced)
		n.mu.Lock()
		n.outsideCgroup = true
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.outsideCgroup = false
			n.pods["a"].containers = nil
			n.run(r)
			return plan.SyncOutcome{}
		}
		n.mu.Unlock()
		n.settle(10 * time.Minute)
		after := n.synced[before:]
		if len(after) != 1 || !after[0].Actions.KillPod || after[0].Actions.Trigger != v1alpha1.TriggerPodCgroupMissing || !after[0].Actions.CreateSandbox {
			t.Errorf("syncs %+v, want one that kills the pod and makes a new sandbox", after)
		}
	})
}
