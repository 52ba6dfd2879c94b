// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestBackoffCheck(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	exited := func(ago time.Duration) plan.ContainerStatus {
		return plan.ContainerStatus{Name: "a", State: plan.ContainerExited, FinishedAt: now.Add(-ago)}
	}
	entry := func(current, ago time.Duration) *plan.Backoff {
		return &plan.Backoff{Current: current, LastUpdate: now.Add(-ago)}
	}
	tests := map[string]struct {
		entry    *plan.Backoff
		observed []plan.ContainerStatus
		wantNext *plan.Backoff
		wantWait *plan.Wait
	}{
		"never ran": {},
		"killed in this sync: not exited yet when it was observed": {
			entry:    entry(40*time.Second, time.Minute),
			observed: []plan.ContainerStatus{{Name: "a", State: plan.ContainerRunning}},
			wantNext: entry(40*time.Second, time.Minute),
		},
		"the first restart is at once": {
			observed: []plan.ContainerStatus{exited(0)},
			wantNext: entry(10*time.Second, 0),
		},
		"in back-off, counted from the exit": {
			entry:    entry(20*time.Second, time.Minute),
			observed: []plan.ContainerStatus{exited(5 * time.Second)},
			wantNext: entry(20*time.Second, time.Minute),
			wantWait: &plan.Wait{
				Until:        now.Add(15 * time.Second),
				Current:      20 * time.Second,
				Message:      "back-off 20s restarting failed container=a pod=web_default(uid-1)",
				EventMessage: "Back-off restarting failed container a in pod web_default(uid-1)",
			},
		},
		"an older exit holds back a newer instance": {
			entry: entry(20*time.Second, time.Minute),
			observed: []plan.ContainerStatus{
				{Name: "a", State: plan.ContainerUnknown}, {Name: "b", State: plan.ContainerExited}, exited(20 * time.Second),
			},
			wantNext: entry(40*time.Second, 0),
		},
		"not beyond the maximum": {
			entry:    entry(200*time.Second, 5*time.Minute),
			observed: []plan.ContainerStatus{exited(4 * time.Minute)},
			wantNext: entry(300*time.Second, 0),
		},
		"begins again after a long run": {
			entry:    entry(300*time.Second, time.Hour),
			observed: []plan.ContainerStatus{exited(time.Second)},
			wantNext: entry(10*time.Second, 0),
		},
		"an exit that is still to come counts from the last restart": {
			entry:    entry(20*time.Second, 5*time.Second),
			observed: []plan.ContainerStatus{exited(-24 * 365 * time.Hour)},
			wantNext: entry(20*time.Second, 5*time.Second),
			wantWait: &plan.Wait{
				Until:        now.Add(15 * time.Second),
				Current:      20 * time.Second,
				Message:      "back-off 20s restarting failed container=a pod=web_default(uid-1)",
				EventMessage: "Back-off restarting failed container a in pod web_default(uid-1)",
			},
		},
		"an exit that is still to come does not wait for ever": {
			entry:    entry(20*time.Second, 20*time.Second),
			observed: []plan.ContainerStatus{exited(-time.Minute)},
			wantNext: entry(40*time.Second, 0),
		},
		"an exit that is still to come, after a long run": {
			entry:    entry(300*time.Second, time.Hour),
			observed: []plan.ContainerStatus{exited(-time.Minute)},
			wantNext: entry(10*time.Second, 0),
		},
		"exit and last restart are still to come: the clock was set back": {
			entry:    entry(20*time.Second, -24*time.Hour),
			observed: []plan.ContainerStatus{exited(-24 * time.Hour)},
			wantNext: entry(40*time.Second, 0),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "a")
			var before plan.Backoff
			if tt.entry != nil {
				before = *tt.entry
			}
			next, wait := plan.DefaultBackoffPolicy().Check(pod, &pod.Spec.Containers[0], tt.entry,
				&plan.PodStatus{Containers: tt.observed}, now)
			if diff := cmp.Diff(tt.wantNext, next); diff != "" {
				t.Errorf("Entry differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantWait, wait); diff != "" {
				t.Errorf("Wait differs (-want +got):\n%s", diff)
			}
			if tt.entry != nil && *tt.entry != before {
				t.Errorf("Check changed the entry it was given to %+v", *tt.entry)
			}
		})
	}
}

func TestNewBackoffPolicy(t *testing.T) {
	t.Parallel()
	seconds := func(n int32) *int32 { return &n }
	tests := map[string]struct {
		spec              *v1alpha1.RestartBackoff
		wantBase, wantMax time.Duration
	}{
		"the kubelet's":               {wantBase: 10 * time.Second, wantMax: 300 * time.Second},
		"nothing set":                 {spec: &v1alpha1.RestartBackoff{}, wantBase: 10 * time.Second, wantMax: 300 * time.Second},
		"both":                        {spec: &v1alpha1.RestartBackoff{BaseSeconds: seconds(2), MaxSeconds: seconds(8)}, wantBase: 2 * time.Second, wantMax: 8 * time.Second},
		"a first wait":                {spec: &v1alpha1.RestartBackoff{BaseSeconds: seconds(60)}, wantBase: time.Minute, wantMax: 300 * time.Second},
		"a maximum below the default": {spec: &v1alpha1.RestartBackoff{MaxSeconds: seconds(4)}, wantBase: 4 * time.Second, wantMax: 4 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := plan.BackoffPolicy{Base: tt.wantBase, Max: tt.wantMax, Expire: 600 * time.Second}
			if diff := cmp.Diff(want, plan.NewBackoffPolicy(tt.spec)); diff != "" {
				t.Errorf("Policy differs (-want +got):\n%s", diff)
			}
		})
	}
}

// The node's minimum counts for each workload, and one that asks for less is told so.
func TestTheNodeHasAShortestBackoff(t *testing.T) {
	t.Parallel()
	seconds := func(n int32) *int32 { return &n }
	tests := map[string]struct {
		spec              *v1alpha1.RestartBackoff
		minimum           time.Duration
		wantBase, wantMax time.Duration
		wantSaid          string
	}{
		"no minimum":        {spec: &v1alpha1.RestartBackoff{BaseSeconds: seconds(1), MaxSeconds: seconds(2)}, wantBase: time.Second, wantMax: 2 * time.Second},
		"nothing asked for": {minimum: 10 * time.Second, wantBase: 10 * time.Second, wantMax: 300 * time.Second},
		"less": {
			spec: &v1alpha1.RestartBackoff{BaseSeconds: seconds(1)}, minimum: 10 * time.Second, wantBase: 10 * time.Second, wantMax: 300 * time.Second,
			wantSaid: "spec.restartBackoff asks for a first wait of 1s; the node's --min-restart-backoff is 10s, which is used instead",
		},
		"a longest wait that is less": {
			spec: &v1alpha1.RestartBackoff{MaxSeconds: seconds(4)}, minimum: 10 * time.Second, wantBase: 10 * time.Second, wantMax: 10 * time.Second,
			wantSaid: "spec.restartBackoff asks for a first wait of 4s; the node's --min-restart-backoff is 10s, which is used instead",
		},
		"as much": {spec: &v1alpha1.RestartBackoff{BaseSeconds: seconds(10)}, minimum: 10 * time.Second, wantBase: 10 * time.Second, wantMax: 300 * time.Second},
		"a node that waits for longer than the kubelet": {minimum: time.Minute, wantBase: time.Minute, wantMax: 300 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := plan.BackoffPolicy{Base: tt.wantBase, Max: tt.wantMax, Expire: 600 * time.Second}
			if diff := cmp.Diff(want, plan.NewBackoffPolicy(tt.spec).AtLeast(tt.minimum)); diff != "" {
				t.Errorf("Policy differs (-want +got):\n%s", diff)
			}
			if got := plan.RaisedBackoff(tt.spec, tt.minimum); got != tt.wantSaid {
				t.Errorf("said %q, want %q", got, tt.wantSaid)
			}
		})
	}
}

// A lowered maximum shortens a wait under way, and the next ones.
func TestBackoffOfALoweredMaximum(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	pod := newPod(corev1.RestartPolicyAlways, "a")
	policy := plan.BackoffPolicy{Base: time.Second, Max: 4 * time.Second, Expire: 600 * time.Second}
	entry := &plan.Backoff{Current: 300 * time.Second, LastUpdate: now.Add(-time.Minute)}
	exited := func(ago time.Duration) *plan.PodStatus {
		return &plan.PodStatus{Containers: []plan.ContainerStatus{{Name: "a", State: plan.ContainerExited, FinishedAt: now.Add(-ago)}}}
	}
	_, wait := policy.Check(pod, &pod.Spec.Containers[0], entry, exited(time.Second), now)
	if wait == nil || wait.Current != 4*time.Second || !wait.Until.Equal(now.Add(3*time.Second)) {
		t.Errorf("Wait = %+v, want 4s from the exit", wait)
	}
	next, wait := policy.Check(pod, &pod.Spec.Containers[0], entry, exited(4*time.Second), now)
	if diff := cmp.Diff(&plan.Backoff{Current: 4 * time.Second, LastUpdate: now}, next); diff != "" || wait != nil {
		t.Errorf("Wait = %+v, entry differs (-want +got):\n%s", wait, diff)
	}
}

func TestBackoffKey(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.Pod, *corev1.Container)
		other  bool
	}{
		"the same":   {change: func(*corev1.Pod, *corev1.Container) {}},
		"a command":  {change: func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"x"} }},
		"an image":   {change: func(_ *corev1.Pod, c *corev1.Container) { c.Image = "other" }, other: true},
		"a UID":      {change: func(p *corev1.Pod, _ *corev1.Container) { p.UID = "other" }, other: true},
		"a neighbor": {change: func(_ *corev1.Pod, c *corev1.Container) { c.Name = "b" }, other: true},
		"resources": {
			change: func(_ *corev1.Pod, c *corev1.Container) {
				c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			},
			other: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "a")
			before := plan.BackoffKey(pod, &pod.Spec.Containers[0])
			tt.change(pod, &pod.Spec.Containers[0])
			if got := plan.BackoffKey(pod, &pod.Spec.Containers[0]) != before; got != tt.other {
				t.Errorf("Another key: %v, want %v", got, tt.other)
			}
		})
	}
}
