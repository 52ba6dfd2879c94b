// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// prior returns a pod with a priority, by its number or by the name of its class.
func prior(name string, priority any) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name = name
	switch p := priority.(type) {
	case int:
		pod.Spec.Priority = new(int32(p))
	case string:
		pod.Spec.PriorityClassName = p
	}
	return pod
}

// Which pods are ended together, in the kubelet's order: those between two periods are in the
// lower one. A class that only the cluster knows is no number here.
func TestShutdownGroups(t *testing.T) {
	t.Parallel()
	const critical = 2_000_000_000
	pods := []*corev1.Pod{
		prior("node-critical", "system-node-critical"), prior("silent", nil), prior("below", -5), prior("high", 10_000),
		prior("between", 9_999), prior("above", 10_001), prior("cluster-critical", "system-cluster-critical"), prior("by number", critical),
		prior("class", "important"),
	}
	two := plan.ShutdownPeriods(30*time.Second, 10*time.Second)
	tests := map[string]struct {
		periods []plan.ShutdownPeriod
		want    []string
	}{
		"none":        {},
		"one in two":  {two, []string{"0 20s: silent below high between above class", "2000000000 10s: node-critical cluster-critical by number"}},
		"no order":    {[]plan.ShutdownPeriod{{10_000, 7}, {-10, 5}, {critical + 1000, 1}}, []string{"-10 5s: silent below between class", "10000 7s: high above cluster-critical by number", "2000001000 1s: node-critical"}},
		"only higher": {[]plan.ShutdownPeriod{{10_000, 7}, {20_000, 8}}, []string{"10000 7s: silent below high between above class", "20000 8s: node-critical cluster-critical by number"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, g := range plan.ShutdownGroups(tt.periods, pods) {
				text := fmt.Sprintf("%d %ds:", g.Priority, g.Seconds)
				for _, pod := range g.Pods {
					text += " " + pod.Name
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
	if got := plan.ShutdownTime(two); got != 30*time.Second {
		t.Errorf("a shutdown takes %v, want 30s", got)
	}
	if got := plan.ShutdownPeriods(0, 0); got != nil {
		t.Errorf("periods without a time: %v", got)
	}
}

// The end of a pod in the kubelet's words, with the shorter of two grace periods.
func TestDecideShutdown(t *testing.T) {
	t.Parallel()
	const message = "Pod was terminated in response to imminent node shutdown."
	for own, want := range map[int64]int64{5: 5, 20: 20, 60: 20} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &own}}
		wanted := plan.Termination{
			Trigger: v1alpha1.TriggerNodeShutdown, Override: &want, Reason: "Terminated", Message: message, RequestedBy: "shim (node shutdown)",
			Condition: &corev1.PodCondition{Type: "DisruptionTarget", Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", Message: message},
		}
		if diff := cmp.Diff(wanted, plan.DecideShutdown(pod, plan.ShutdownPeriod{Seconds: 20})); diff != "" {
			t.Errorf("own grace period %d (-want +got):\n%s", own, diff)
		}
	}
}

// What a shutdown ended stays ended for that reason, without its checkpoint too.
func TestShutDownBefore(t *testing.T) {
	t.Parallel()
	before := &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown."}
	got, ends := plan.DecideTermination(plan.Existence{Status: before})
	if !ends || got.Trigger != v1alpha1.TriggerNodeShutdown || got.Reason != "Terminated" || got.Message != before.Message || got.Condition == nil || got.Override != nil {
		t.Errorf("ends %t: %+v", ends, got)
	}
	for _, other := range []*corev1.PodStatus{nil, {Phase: corev1.PodRunning, Reason: "Terminated"}, {Phase: corev1.PodFailed, Reason: "Evicted"}} {
		if plan.ShutDown(other) != nil {
			t.Errorf("%+v counts as ended by a shutdown", other)
		}
	}
}
