// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// Container is the one of a Pod whose requests are changed.
const Container = "reserved"

// Labels are those of the Pods that reserve, as config/reserved has them.
var Labels = map[string]string{"app.kubernetes.io/name": "managedworkload", "app.kubernetes.io/component": "reserved"}

// Pod is what is remembered of a Pod that reserves. It is not changed once it is made.
type Pod struct {
	Name    string
	UID     types.UID
	Node    string
	Created time.Time
	// Admitted: the kubelet has admitted it. Until then its requests stay as they are: with more,
	// it might be refused.
	Admitted bool
	// Asked is what its spec requests, Granted what the kubelet counts.
	Asked, Granted fleet.Amount
	// Answered: the kubelet has decided about what is asked.
	Answered bool
	// Pending is the kubelet's answer if that is not yes.
	Pending fleet.Said
}

// podOf is what is remembered of a Pod, nil if it is on no node, ends, or reserves nothing.
func podOf(pod *corev1.Pod) *Pod {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == Container })
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if i < 0 || over || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return nil
	}
	p := &Pod{
		Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time,
		Asked: fleet.AmountIn(pod.Spec.Containers[i].Resources.Requests),
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == Container && status.Resources != nil {
			p.Admitted, p.Granted = true, fleet.AmountIn(status.Resources.Requests)
		}
	}
	p.takeAnswer(pod)
	return p
}

// takeAnswer notes what the kubelet says about the latest resize. A kubelet that has seen it and
// does not say that it waits has granted it: the status shows that later, when the runtime has
// done its part. An error of PodResizeInProgress is about that part, which is the cgroup of a
// process that does nothing.
func (p *Pod) takeAnswer(pod *corev1.Pod) {
	seen := func(generation int64) bool { return generation >= pod.Generation }
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue
	})
	switch {
	case i >= 0:
		if c := pod.Status.Conditions[i]; seen(c.ObservedGeneration) {
			p.Answered, p.Pending = true, fleet.Said{Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message}
		}
	case p.Admitted && seen(pod.Status.ObservedGeneration):
		p.Answered, p.Granted = true, p.Asked
	}
}

// strip keeps of a Pod what podOf reads.
func strip(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	lean := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Generation: pod.Generation,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	lean.Spec.NodeName = pod.Spec.NodeName
	for _, c := range pod.Spec.Containers {
		if c.Name == Container {
			lean.Spec.Containers = []corev1.Container{{Name: c.Name, Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests}}}
		}
	}
	lean.Status.Phase, lean.Status.ObservedGeneration = pod.Status.Phase, pod.Status.ObservedGeneration
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			lean.Status.Conditions = []corev1.PodCondition{c}
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == Container {
			lean.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: s.Name, Resources: s.Resources}}
		}
	}
	return lean, nil
}
