// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestPastActiveDeadline(t *testing.T) {
	t.Parallel()
	start := time.Unix(10_000, 0)
	seconds := int64(30)
	deadline := corev1.PodSpec{ActiveDeadlineSeconds: &seconds}
	since := func(phase corev1.PodPhase, reason string) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: phase, Reason: reason, StartTime: &metav1.Time{Time: start}}
	}
	exceeded := &plan.Termination{
		Trigger: v1alpha1.TriggerTermination, RequestedBy: "shim (activeDeadlineSeconds)",
		Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline",
	}
	tests := map[string]struct {
		spec     corev1.PodSpec
		previous *corev1.PodStatus
		after    time.Duration
		want     *plan.Termination
	}{
		"no deadline":                      {previous: since(corev1.PodRunning, ""), after: time.Hour},
		"no status yet":                    {spec: deadline, after: time.Hour},
		"not started":                      {spec: deadline, previous: &corev1.PodStatus{Phase: corev1.PodPending}, after: time.Hour},
		"longer than a time can be":        {spec: corev1.PodSpec{ActiveDeadlineSeconds: new(int64(math.MaxInt64))}, previous: since(corev1.PodRunning, ""), after: time.Hour},
		"just before":                      {spec: deadline, previous: since(corev1.PodRunning, ""), after: 30*time.Second - 1},
		"in that moment":                   {spec: deadline, previous: since(corev1.PodRunning, ""), after: 30 * time.Second, want: exceeded},
		"while it starts":                  {spec: deadline, previous: since(corev1.PodPending, ""), after: time.Minute, want: exceeded},
		"succeeded in time":                {spec: deadline, previous: since(corev1.PodSucceeded, ""), after: time.Minute},
		"failed in time":                   {spec: deadline, previous: since(corev1.PodFailed, ""), after: time.Minute},
		"the reason stays":                 {spec: deadline, previous: since(corev1.PodFailed, "DeadlineExceeded"), after: time.Minute, want: exceeded},
		"the reason stays without a cause": {previous: since(corev1.PodFailed, "DeadlineExceeded"), want: exceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan.PastActiveDeadline(&corev1.Pod{Spec: tt.spec}, tt.previous, start.Add(tt.after))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Termination differs (-want +got):\n%s", diff)
			}
		})
	}
}
