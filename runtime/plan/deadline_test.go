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
			got := plan.PastActiveDeadline(&corev1.Pod{Spec: tt.spec}, tt.previous, tt.after)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Termination differs (-want +got):\n%s", diff)
			}
		})
	}
}

// How long a pod has been active goes by the time since boot from the moment its start
// was seen, whether or not the wall clock is set.
func TestActivity(t *testing.T) {
	t.Parallel()
	const boot = time.Minute
	start := metav1.Unix(10_000, 0)
	seenAfter := func(wall time.Duration) *plan.Activity {
		return (*plan.Activity)(nil).Seen(&start, plan.Moment{Wall: start.Add(wall), SinceBoot: boot})
	}
	tests := map[string]struct {
		seen *plan.Activity
		now  plan.Moment
		want time.Duration
	}{
		"not started":                 {now: plan.Moment{Wall: start.Time, SinceBoot: boot}},
		"seen at once":                {seen: seenAfter(0), now: plan.Moment{Wall: start.Add(5 * time.Second), SinceBoot: boot + 5*time.Second}, want: 5 * time.Second},
		"set forward since":           {seen: seenAfter(0), now: plan.Moment{Wall: start.Add(time.Hour), SinceBoot: boot + 5*time.Second}, want: 5 * time.Second},
		"set back since":              {seen: seenAfter(0), now: plan.Moment{Wall: start.Add(-time.Hour), SinceBoot: boot + 5*time.Second}, want: 5 * time.Second},
		"started before the boot":     {seen: seenAfter(time.Hour), now: plan.Moment{SinceBoot: boot + time.Second}, want: time.Hour + time.Second},
		"first seen after a set back": {seen: seenAfter(-time.Hour), now: plan.Moment{SinceBoot: boot + time.Second}, want: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.seen.Active(tt.now); got != tt.want {
				t.Errorf("active for %s, want %s", got, tt.want)
			}
			if again := tt.seen.Seen(&start, tt.now); tt.seen != nil && again != tt.seen {
				t.Errorf("%+v became %+v although the start time is the same", tt.seen, again)
			}
		})
	}
	later := metav1.NewTime(start.Add(time.Hour))
	if got := seenAfter(0).Seen(&later, plan.Moment{Wall: later.Add(time.Second), SinceBoot: 2 * time.Hour}); got.Active(plan.Moment{SinceBoot: 2 * time.Hour}) != time.Second {
		t.Errorf("another start time is counted as %+v", got)
	}
}
