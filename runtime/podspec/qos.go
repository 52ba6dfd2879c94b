// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// QOSClass returns the quality of service class of a pod. It follows the spec: a
// template that changes may change it, which a Pod in the API never does.
// (kubernetes pkg/apis/core/v1/helper/qos/qos.go:ComputePodQOS)
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	limitedThroughout := true
	for _, r := range qosResources(&pod.Spec) {
		addComputeResources(requests, r.Requests)
		if addComputeResources(limits, r.Limits) < 2 {
			limitedThroughout = false
		}
	}
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return corev1.PodQOSBestEffort
	case limitedThroughout && len(requests) == len(limits) && sameQuantities(requests, limits):
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// qosResources returns the resources that the class depends on: the pod's own if
// set, else those of all init and main containers.
func qosResources(spec *corev1.PodSpec) []corev1.ResourceRequirements {
	if spec.Resources != nil {
		return []corev1.ResourceRequirements{*spec.Resources}
	}
	all := make([]corev1.ResourceRequirements, 0, len(spec.Containers)+len(spec.InitContainers))
	for i := range spec.Containers {
		all = append(all, spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		all = append(all, spec.InitContainers[i].Resources)
	}
	return all
}

// addComputeResources adds cpu and memory above zero to a sum and returns how
// many of the two there were.
func addComputeResources(sum, list corev1.ResourceList) int {
	found := 0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		quantity, ok := list[name]
		if !ok || quantity.Sign() != 1 {
			continue
		}
		found++
		total := quantity.DeepCopy()
		total.Add(sum[name])
		sum[name] = total
	}
	return found
}

func sameQuantities(requests, limits corev1.ResourceList) bool {
	for name, request := range requests {
		limit, ok := limits[name]
		if !ok || limit.Cmp(request) != 0 {
			return false
		}
	}
	return true
}
