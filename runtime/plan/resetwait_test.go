// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A pod starts over no sooner than each container that asked for it may restart. A change or a restart on purpose is
// not waited with, and no entry counts a restart that has not come.
func TestResetWaitsAsARestart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		// restarted are the waits that containers have come to.
		restarted map[string]time.Duration
		codes     map[string]int32
		edit      func(*corev1.Pod)
		kubelet   bool
		want      []string
		wantNext  map[string]time.Duration
	}{
		"the first time": {
			codes: map[string]int32{"a": 42}, wantNext: map[string]time.Duration{"a": 10 * time.Second},
		},
		"again": {
			codes: map[string]int32{"a": 42}, restarted: map[string]time.Duration{"a": 10 * time.Second}, want: []string{"a"},
		},
		"again, and the wait is over": {
			codes: map[string]int32{"a": 42}, restarted: map[string]time.Duration{"a": time.Second}, wantNext: map[string]time.Duration{"a": 2 * time.Second},
		},
		"one of two waits": {
			codes: map[string]int32{"a": 42, "b": 42}, restarted: map[string]time.Duration{"b": 10 * time.Second}, want: []string{"b"},
		},
		"who did not ask does not wait": {
			codes: map[string]int32{"a": 42, "b": 1}, restarted: map[string]time.Duration{"b": 10 * time.Second},
			wantNext: map[string]time.Duration{"a": 10 * time.Second},
		},
		"a restart is requested": {
			codes: map[string]int32{"a": 42}, restarted: map[string]time.Duration{"a": 10 * time.Second},
			edit:     func(pod *corev1.Pod) { pod.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "now"} },
			wantNext: map[string]time.Duration{"a": 0},
		},
		"the kubelet": {
			kubelet: true, codes: map[string]int32{"a": 42}, restarted: map[string]time.Duration{"a": 10 * time.Second},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyNever, "a", "b")
			r := plan.SyncRequest{Pod: pod, Observed: &plan.PodStatus{}, Backoff: map[string]*plan.Backoff{}}
			keys := map[string]string{}
			for i := range pod.Spec.Containers {
				c := &pod.Spec.Containers[i]
				c.RestartPolicyRules = []corev1.ContainerRestartRule{{
					Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
					ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
				}}
				keys[plan.BackoffKey(pod, c)] = c.Name
				if wait, ok := tt.restarted[c.Name]; ok {
					r.Backoff[plan.BackoffKey(pod, c)] = &plan.Backoff{Current: wait, LastUpdate: now.Add(-3 * time.Second)}
				}
				if code, ok := tt.codes[c.Name]; ok {
					r.Observed.Containers = append(r.Observed.Containers, plan.ContainerStatus{
						ID: c.Name, Name: c.Name, State: plan.ContainerExited, ExitCode: code, FinishedAt: now.Add(-2 * time.Second), Hash: plan.HashContainer(c),
					})
				}
			}
			if tt.edit != nil {
				tt.edit(pod)
			}
			d := plan.AllDifferences()
			d.BackOffResets = !tt.kubelet
			next, waits := plan.CheckResetBackoff(&r, d, plan.Moment{Wall: now})
			var got []string
			for _, wait := range waits {
				got = append(got, wait.Name)
				if want := now.Add(8 * time.Second); !wait.Until.Equal(want) {
					t.Errorf("%s waits until %s, want %s", wait.Name, wait.Until, want)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if len(waits) > 0 {
				return
			}
			entries := map[string]time.Duration{}
			for key, entry := range next {
				entries[keys[key]] = 0
				if entry != nil {
					entries[keys[key]] = entry.Current
				}
			}
			if diff := cmp.Diff(tt.wantNext, entries, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}
