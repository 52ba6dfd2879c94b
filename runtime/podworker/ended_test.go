// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A workload that ends before it is seen to run has run its template: without the
// hash the manager would take it for one of an older template and replace it, again
// and again.
func TestTemplateHashOfWhatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			n.stop(r.Pod.UID, 0)
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {}}}
		}
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Hour)
		st := n.published("a")
		if st.Phase != corev1.PodSucceeded || st.TemplateHash == "" || len(n.synced) != 1 {
			t.Errorf("phase %s, template hash %q, %d syncs", st.Phase, st.TemplateHash, len(n.synced))
		}
	})
}

// A shim that died between the start and its checkpoint leaves nothing behind but
// the container: what has ended is still the template's, and must not run a
// second time.
func TestTemplateHashOfWhatAnEarlierShimStarted(t *testing.T) {
	never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
	restartedAt := func(nw *template.Workload) {
		nw.Template.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "now"}
	}
	limited := func(nw *template.Workload) { nw.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }
	before := func(nw *template.Workload) { nw.Status.TemplateHash = "before" }
	tests := map[string]struct {
		nw       *template.Workload
		started  *template.Workload // nil: nothing was
		wantHash bool
	}{
		"the same template":                  {workload("a", never), workload("a", never), true},
		"one in the place of another":        {workload("a", never, before), workload("a", never), true},
		"another template":                   {workload("a", never, image("image:2")), workload("a", never), false},
		"a restart was asked for since":      {workload("a", never, restartedAt), workload("a", never), false},
		"nothing, until its time was over":   {workload("a", limited), nil, true},
		"nothing in the place of another":    {workload("a", limited, before), nil, false},
		"a container that it does not name":  {workload("a", never, func(nw *template.Workload) { nw.Template.Spec.Containers[0].Name = "d" }), workload("a", never), false},
		"a changed probe needs no other run": {workload("a", never, func(nw *template.Workload) { nw.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{} }), workload("a", never), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t)
				if tt.started != nil {
					pod := template.Pod(tt.started)
					n.run(plan.SyncRequest{Pod: pod, Actions: plan.Actions{ContainersToStart: []int{0}}})
					n.stop("a", 0)
				}
				n.calls = nil
				p := n.start(t)
				p.SetUsable(Usable{Reason: v1alpha1.ReasonForeignPods})
				p.Update(tt.nw)
				n.settle(time.Minute)
				st := n.published("a")
				hashed := tt.nw.Template.DeepCopy()
				template.SetDefaults(hashed)
				if got := st.TemplateHash == template.Hash(hashed); got != tt.wantHash || len(n.synced) != 0 {
					t.Errorf("phase %s, template hash %q, %d syncs", st.Phase, st.TemplateHash, len(n.synced))
				}
			})
		})
	}
}

// Nor does it matter that the sync failed: the one container was killed because
// its postStart hook failed.
func TestTemplateHashOfWhatEndsByItsHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			n.stop(r.Pod.UID, 137)
			failed := errors.New("postStart hook failed")
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {Reason: "PostStartHookError"}}, Err: failed}
		}
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Hour)
		st := n.published("a")
		if st.Phase != corev1.PodFailed || st.TemplateHash == "" || len(n.synced) != 1 {
			t.Errorf("phase %s, template hash %q, %d syncs", st.Phase, st.TemplateHash, len(n.synced))
		}
	})
}

// A workload that has ended still says which generation it has seen: without it
// the manager would wait for an update forever.
func TestObservedGenerationAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Second)
		n.exit("a", 0)
		p.Wake("a")
		n.settle(time.Minute)
		before := n.published("a")
		p.Update(workload("a", never, generation(7)))
		n.settle(time.Second)
		after := n.published("a")
		if after.ObservedGeneration != 7 || after.Phase != corev1.PodSucceeded || after.TemplateHash != before.TemplateHash {
			t.Errorf("generation %d, phase %s, template %q, before %q", after.ObservedGeneration, after.Phase, after.TemplateHash, before.TemplateHash)
		}
	})
}

// A container that never ran is reported to have ended with its workload, as the
// kubelet tells it. (kubelet status/status_manager.go:TerminatePod)
func TestStatusOfWhatNeverStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		n.syncing = func(context.Context, plan.SyncRequest) plan.SyncOutcome {
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {Reason: "ErrImagePull"}}, Err: errors.New("no image")}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(time.Minute)
		p.Update(workload("a", deleted(nil)))
		n.settle(time.Minute)
		st := n.published("a")
		if st.Phase != corev1.PodFailed || st.ContainerStatuses[0].State.Terminated == nil || st.ContainerStatuses[0].State.Terminated.Reason != "ContainerStatusUnknown" {
			t.Errorf("phase %s, containers %v", st.Phase, st.ContainerStatuses)
		}
	})
}

// While a sync stops a container to start it again, it has exited: that is no end
// of the workload, even if its exit code and restart policy say so.
func TestNoEndInTheMiddleOfASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(nw *template.Workload) { nw.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }
		n := newFakeNode(t)
		p := n.start(t)
		p.Update(workload("a", never))
		n.settle(time.Second)
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			n.stop(r.Pod.UID, 0)
			n.mu.Unlock()
			for range 3 {
				time.Sleep(busyRefresh)
				p.Wake("a")
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.run(r)
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {}}}
		}
		p.Update(workload("a", never, image("image:2"), generation(2)))
		n.settle(time.Minute)
		if st := n.published("a"); st.Phase != corev1.PodRunning || st.ObservedGeneration != 2 {
			t.Errorf("phase %s at generation %d", st.Phase, st.ObservedGeneration)
		}
	})
}

// The exit of a container that was killed for its postStart hook comes in the
// middle of the sync: the next one reports the back-off at once, not when the
// wait is over.
func TestSyncAfterADeathInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t)
		var at []time.Duration
		begin := time.Now()
		n.syncing = func(_ context.Context, r plan.SyncRequest) plan.SyncOutcome {
			n.mu.Lock()
			defer n.mu.Unlock()
			at = append(at, time.Since(begin))
			if len(at) == 1 {
				n.run(r)
				n.stop(r.Pod.UID, 137)
			}
			return plan.SyncOutcome{Tried: map[string]plan.Reason{"c": {Reason: "PostStartHookError"}}, Err: errors.New("postStart hook failed")}
		}
		p := n.start(t)
		p.Update(workload("a"))
		n.settle(5 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(at) != 2 || at[1] > time.Second {
			t.Errorf("syncs at %v", at)
		}
	})
}
