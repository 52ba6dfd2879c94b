// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// STATUS says why a change waits, once, and no longer than it does.
func TestSummaryOfAChangeThatWaits(t *testing.T) {
	waits := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionTrue, Reason: reason}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	for name, tt := range map[string]struct {
		state      corev1.ContainerState
		conditions []metav1.Condition
		want       string
	}{
		"a container runs meanwhile":  {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, waits("ImagePullBackOff"), "Running, waiting: ImagePullBackOff"},
		"it has exited meanwhile":     {waiting, waits("ImagePullBackOff"), "ImagePullBackOff"},
		"another image than this one": {waiting, waits("ErrImageNeverPull"), "ImagePullBackOff, waiting: ErrImageNeverPull"},
		"nothing waits":               {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil, "Running"},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.NodeWorkloadStatus{Conditions: waits("Pulling")}
			st := NodeWorkload(NodeWorkloadInput{
				Previous: before, Conditions: tt.conditions,
				Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: tt.state}},
				},
			})
			if st.Summary != tt.want || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionUpdateWaiting) != (tt.conditions != nil) {
				t.Errorf("summary %q, want %q; conditions %+v", st.Summary, tt.want, st.Conditions)
			}
		})
	}
}
