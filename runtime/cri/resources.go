// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// The kubelet's constants. (kubelet cm/helpers_linux.go, qos/policy.go)
const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	milliPerCPU  = 1000
	// quotaPeriod and minQuota are in microseconds.
	quotaPeriod = 100000
	minQuota    = 1000

	oomGuaranteed   = -997
	oomBestEffort   = 1000
	oomBurstableMin = 1000 + oomGuaranteed
)

// containerResources are what a container's cgroup is to be. (kubelet
// kuberuntime_container_linux.go:generateLinuxContainerResources)
func (n *nodeResources) containerResources(pod *corev1.Pod, container *corev1.Container) *runtimeapi.LinuxContainerResources {
	out := n.linuxResources(container.Resources.Requests, effectiveLimits(pod, container))
	out.OomScoreAdj = n.oomScoreAdjust(pod, container)
	out.HugepageLimits = n.hugePageLimits(container)
	if n.swapLimits {
		n.forbidSwap(out)
	}
	return out
}

// effectiveLimits are a container's own limits of CPU and memory, and the pod's where it has
// none. (kubelet kuberuntime_container_linux.go:getCPULimit, getMemoryLimit)
func effectiveLimits(pod *corev1.Pod, container *corev1.Container) corev1.ResourceList {
	own := container.Resources.Limits
	if pod.Spec.Resources == nil {
		return own
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: *own.Cpu(), corev1.ResourceMemory: *own.Memory()}
	for name, limit := range limits {
		if limit.IsZero() {
			limits[name] = pod.Spec.Resources.Limits[name]
		}
	}
	return limits
}

// hugePageLimits are a container's limits of each page size of the node; without one it may
// use none. (kubelet kuberuntime_container_linux.go:GetHugepageLimitsFromResources)
func (n *nodeResources) hugePageLimits(container *corev1.Container) []*runtimeapi.HugepageLimit {
	var limits []*runtimeapi.HugepageLimit
	for _, size := range n.hugePages {
		limit := &runtimeapi.HugepageLimit{PageSize: size}
		for name, quantity := range container.Resources.Limits {
			if suffix, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok && pageSize(suffix) == size {
				limit.Limit = uint64(max(quantity.Value(), 0))
			}
		}
		limits = append(limits, limit)
	}
	return limits
}

// pageSize is a size as cgroup files spell it, 2MB for 2Mi; "" for what is no size.
func pageSize(size string) string {
	quantity, err := resource.ParseQuantity(size)
	if err != nil {
		return ""
	}
	return hugePageName(quantity.Value() >> 10)
}

// forbidSwap is the kubelet's swap behaviour NoSwap, its default. (kubelet
// kuberuntime_container_linux.go:ConfigureNoSwap)
func (n *nodeResources) forbidSwap(r *runtimeapi.LinuxContainerResources) {
	if n.unified {
		r.Unified["memory.swap.max"] = "0"
		return
	}
	// Memory and swap together.
	r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
}

// sandboxResources are the sums over a pod's containers. (kubelet
// kuberuntime_sandbox_linux.go:calculateSandboxResources)
func (n *nodeResources) sandboxResources(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	options := podresources.PodResourcesOptions{ExcludeOverhead: true}
	return n.linuxResources(podresources.PodRequests(pod, options), podresources.PodLimits(pod, options))
}

// overhead is what the sandbox itself needs, as both request and limit. (kubelet
// kuberuntime_sandbox_linux.go:convertOverheadToLinuxResources)
func (n *nodeResources) overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if pod.Spec.Overhead == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	return n.linuxResources(pod.Spec.Overhead, pod.Spec.Overhead)
}

// linuxResources converts requests and limits. A missing CPU request is the
// limit. (kubelet kuberuntime_container_linux.go:calculateLinuxResources)
func (n *nodeResources) linuxResources(requests, limits corev1.ResourceList) *runtimeapi.LinuxContainerResources {
	cpu := limits.Cpu()
	if request, ok := requests[corev1.ResourceCPU]; ok {
		cpu = &request
	}
	out := &runtimeapi.LinuxContainerResources{
		CpuShares:          toShares(cpu.MilliValue()),
		CpuPeriod:          quotaPeriod,
		CpuQuota:           toQuota(limits.Cpu().MilliValue()),
		MemoryLimitInBytes: limits.Memory().Value(),
	}
	if n.unified {
		// An out of memory container is killed whole, as the kubelet does unless
		// singleProcessOOMKill is set.
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return out
}

func toShares(milliCPU int64) int64 {
	return min(max(milliCPU*sharesPerCPU/milliPerCPU, minShares), maxShares)
}

// toQuota is in microseconds a period; 0 is no limit.
func toQuota(milliCPU int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(milliCPU*quotaPeriod/milliPerCPU, minQuota)
}

// oomScoreAdjust makes the kernel kill first what requests little of
// the node's memory, and last what the node cannot do without, whatever that requests.
// (kubelet qos/policy.go:GetContainerOOMScoreAdjust)
func (n *nodeResources) oomScoreAdjust(pod *corev1.Pod, container *corev1.Container) int64 {
	if podspec.IsNodeCritical(pod) {
		return oomGuaranteed
	}
	switch podspec.QOSClass(pod) {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	case corev1.PodQOSBurstable:
	}
	request := container.Resources.Requests.Memory().Value()
	if at := plan.PlaceOf(pod, container.Name); at != nil && at.Sidecar {
		// A sidecar is not to be killed before the containers it serves.
		request = max(request, leastMemoryRequest(pod))
	}
	request += unallocatedMemory(pod)
	score := int64(oomBestEffort)
	if n.memory > 0 {
		score -= oomBestEffort * request / n.memory
	}
	return min(max(score, oomBurstableMin), oomBestEffort-1)
}

// unallocatedMemory is each container's share of what the pod requests beyond its
// containers' requests. (kubelet qos/helpers.go:remainingPodMemReqPerContainer)
func unallocatedMemory(pod *corev1.Pod) int64 {
	if pod.Spec.Resources == nil || pod.Spec.Resources.Requests.Memory().IsZero() {
		return 0
	}
	allocated := podresources.AggregateContainerRequests(pod, podresources.PodResourcesOptions{})
	rest := pod.Spec.Resources.Requests.Memory().Value() - allocated.Memory().Value()
	return rest / max(int64(len(pod.Spec.Containers)+len(pod.Spec.InitContainers)), 1)
}

// leastMemoryRequest of the main containers, in bytes.
func leastMemoryRequest(pod *corev1.Pod) int64 {
	var least int64
	for i := range pod.Spec.Containers {
		if request := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); i == 0 || request < least {
			least = request
		}
	}
	return least
}

// reportedResources are what the runtime says of a container's cgroup; nil when
// it says nothing. (kubelet kuberuntime_container_linux.go:toKubeContainerResources)
func reportedResources(r *runtimeapi.LinuxContainerResources) *corev1.ResourceRequirements {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if r.GetCpuPeriod() > 0 && r.GetCpuQuota() > 0 {
		if milli := r.GetCpuQuota() * milliPerCPU / r.GetCpuPeriod(); milli > 0 {
			limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	if r.GetCpuShares() >= minShares {
		milli := (r.GetCpuShares()*milliPerCPU + sharesPerCPU - 1) / sharesPerCPU
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if r.GetMemoryLimitInBytes() > 0 {
		limits[corev1.ResourceMemory] = *resource.NewQuantity(r.GetMemoryLimitInBytes(), resource.BinarySI)
	}
	if len(requests) == 0 && len(limits) == 0 {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: requests, Limits: limits}
}
