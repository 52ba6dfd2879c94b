// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	corev1 "k8s.io/api/core/v1"
)

// qosClass is the pod's class of service: what is set at pod level counts before
// the containers. (pkg/apis/core/v1/helper/qos/qos.go:ComputePodQOS)
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		all = append(all, *r)
	} else {
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				all = append(all, list[i].Resources)
			}
		}
	}
	some, guaranteed := false, len(all) > 0
	for _, r := range all {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			some = some || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
