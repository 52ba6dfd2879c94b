// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

func requirements(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

// reservingPod is one on a node, with the requests of config/reserved.
func reservingPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: Labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: Container, Image: "i", Resources: requirements("1m", "8Mi")}}},
	}
}

// What the kubelet has granted is what it was asked for, once it has seen that and does not say
// that it waits; until then it is what the status shows.
func TestPod(t *testing.T) {
	asked, before := fleet.Amount{MilliCPU: 301, Memory: 72 << 20}, Own
	pending := func(seen int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ObservedGeneration = 2
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Deferred", Message: "no room", ObservedGeneration: seen,
			}}
		}
	}
	said := fleet.Said{Status: metav1.ConditionFalse, Reason: "Deferred", Message: "no room"}
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   *Pod
	}{
		"not seen yet":                 {func(*corev1.Pod) {}, &Pod{Admitted: true, Asked: asked, Granted: before}},
		"seen":                         {func(pod *corev1.Pod) { pod.Status.ObservedGeneration = 2 }, &Pod{Admitted: true, Asked: asked, Granted: asked, Answered: true}},
		"deferred":                     {pending(2), &Pod{Admitted: true, Asked: asked, Granted: before, Answered: true, Pending: said}},
		"an earlier one was deferred":  {pending(1), &Pod{Admitted: true, Asked: asked, Granted: before}},
		"not admitted yet":             {func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{ObservedGeneration: 2} }, &Pod{Asked: asked}},
		"on no node":                   {func(pod *corev1.Pod) { pod.Spec.NodeName = "" }, nil},
		"being deleted":                {func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }, nil},
		"ended":                        {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, nil},
		"another Pod with such labels": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Name = "shim" }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := reservingPod("n1")
			pod.Generation, pod.Spec.Containers[0].Resources = 2, requirements("301m", "72Mi")
			status := requirements("1m", "8Mi")
			pod.Status = corev1.PodStatus{ObservedGeneration: 1, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, Resources: &status}}}
			tc.change(pod)
			if tc.want != nil {
				tc.want.Name, tc.want.Node = "p", "n1"
			}
			lean, err := strip(pod)
			if err != nil {
				t.Fatal(err)
			}
			for what, pod := range map[string]*corev1.Pod{"whole": pod, "as the cache has it": lean.(*corev1.Pod)} {
				if diff := cmp.Diff(tc.want, podOf(pod)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}
