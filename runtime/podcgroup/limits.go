// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	quotaPeriod  = 100000 // microseconds
	minQuota     = 1000   // microseconds
	milliPerCPU  = 1000
	withoutLimit = int64(-1)
)

// limits are the limits of a pod's cgroup; withoutLimit where there is none.
type limits struct {
	shares uint64
	quota  int64 // microseconds in each quotaPeriod
	memory int64 // bytes
	pids   int64 // processes and threads
}

// podLimits adds up what the containers ask for. CPU and memory are limited only
// if every container has a limit of its own, or the pod has one.
// (cm/helpers_linux.go:ResourceConfigForPod)
func podLimits(pod *corev1.Pod) limits {
	cpuLimited, memoryLimited := true, true
	sum := resource.PodLimits(pod, resource.PodResourcesOptions{
		ContainerFn: func(list corev1.ResourceList, _ resource.ContainerType) {
			cpuLimited = cpuLimited && !list.Cpu().IsZero()
			memoryLimited = memoryLimited && !list.Memory().IsZero()
		},
	})
	if r := pod.Spec.Resources; r != nil {
		cpuLimited = cpuLimited || !r.Limits.Cpu().IsZero()
		memoryLimited = memoryLimited || !r.Limits.Memory().IsZero()
	}
	out := limits{shares: minShares, quota: withoutLimit, memory: withoutLimit, pids: withoutLimit}
	if podspec.QOSClass(pod) == corev1.PodQOSBestEffort {
		return out
	}
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	out.shares = toShares(requests.Cpu().MilliValue())
	if cpu := sum.Cpu().MilliValue(); cpuLimited && cpu > 0 {
		out.quota = max(cpu*quotaPeriod/milliPerCPU, minQuota)
	}
	if memory := sum.Memory().Value(); memoryLimited && memory > 0 {
		out.memory = memory
	}
	return out
}

// MemoryLimit is the pod's memory limit in bytes; 0 when it has none.
func MemoryLimit(pod *corev1.Pod) int64 {
	return max(podLimits(pod).memory, 0)
}

func toShares(milliCPU int64) uint64 {
	return uint64(min(max(milliCPU*sharesPerCPU/milliPerCPU, minShares), maxShares))
}
