// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Words and time of the kubelet's evictions. (kubelet eviction/helpers.go,
// eviction_manager.go)
const (
	// ReasonEvicted is the reason of a pod's status and of the event.
	ReasonEvicted = v1alpha1.ReasonEvicted

	emptyDirMessage         = "Usage of EmptyDir volume %q exceeds the limit %q. "
	podStorageMessage       = "Pod ephemeral local storage usage exceeds the total limit of containers %s. "
	containerStorageMessage = "Container %s exceeded its local ephemeral storage limit %q. "

	// evictionGracePeriod, in seconds, is what an eviction for local storage leaves.
	evictionGracePeriod = 1

	// largestPage is the largest page, in bytes, of the architectures that there are nodes of.
	largestPage = 64 << 10
)

// DiskLimit is what a volume or a container may use of the node's disk.
type DiskLimit struct {
	Name  string            `json:"name"`
	Limit resource.Quantity `json:"limit"`
	// Memory: it is that of a volume in memory, which the kernel bounds too.
	Memory bool `json:"memory,omitempty"`
}

// DiskLimits are what a pod may use of the node's disk, in the order in which they are
// looked at.
type DiskLimits struct {
	// Volumes are the sizeLimits of emptyDirs, on disk and in memory.
	Volumes []DiskLimit `json:"volumes,omitempty"`
	// Pod is the sum of the containers' limits; nil where no container has one.
	Pod *resource.Quantity `json:"pod,omitempty"`
	// Containers are the limits of ephemeral-storage, main containers first, then init containers.
	Containers []DiskLimit `json:"containers,omitempty"`
}

// DiskLimitsOf returns the limits of a pod. A critical pod has none: it is not evicted. The
// kubelet looks at the limits of main containers only.
// (kubelet eviction_manager.go:localStorageEviction, evictPod)
func DiskLimitsOf(pod *corev1.Pod) *DiskLimits {
	limits := &DiskLimits{}
	if pod == nil || critical(pod) {
		return limits
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0 {
			limits.Volumes = append(limits.Volumes, DiskLimit{
				Name: v.Name, Limit: v.EmptyDir.SizeLimit.DeepCopy(), Memory: v.EmptyDir.Medium == corev1.StorageMediumMemory,
			})
		}
	}
	if sum, ok := podresources.PodLimits(pod, podresources.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; ok {
		limits.Pod = &sum
	}
	limits.Containers = slices.Concat(containerLimits(pod.Spec.Containers), containerLimits(pod.Spec.InitContainers))
	return limits
}

func containerLimits(containers []corev1.Container) []DiskLimit {
	var limits []DiskLimit
	for i := range containers {
		c := &containers[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() {
			limits = append(limits, DiskLimit{Name: c.Name, Limit: limit.DeepCopy()})
		}
	}
	return limits
}

// critical reports whether a pod is one that the kubelet does not evict: a static one, or one
// with a priority for that. The names are those of the only classes that give it.
// (kubelet types/pod_update.go:IsCriticalPod)
func critical(pod *corev1.Pod) bool {
	if v1alpha1.IsStatic(pod.UID) {
		return true
	}
	switch pod.Spec.PriorityClassName {
	case podspec.NodeCriticalClass, podspec.ClusterCriticalClass:
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= clusterCriticalPriority
}

// None reports whether there is nothing to measure.
func (l *DiskLimits) None() bool {
	return l == nil || len(l.Volumes) == 0 && l.Pod == nil && len(l.Containers) == 0
}

// Loosest returns the limits of l that other has too, the larger of each two. It is what
// may be enforced while both can be those of something that runs.
func (l *DiskLimits) Loosest(other *DiskLimits) *DiskLimits {
	loosest := &DiskLimits{Volumes: looser(l.Volumes, other.Volumes), Containers: looser(l.Containers, other.Containers)}
	if l.Pod != nil && other.Pod != nil {
		loosest.Pod = larger(l.Pod, other.Pod)
	}
	return loosest
}

func looser(limits, others []DiskLimit) []DiskLimit {
	var both []DiskLimit
	for i := range limits {
		at := slices.IndexFunc(others, func(o DiskLimit) bool { return o.Name == limits[i].Name })
		if at >= 0 {
			both = append(both, DiskLimit{
				Name: limits[i].Name, Limit: *larger(&limits[i].Limit, &others[at].Limit), Memory: limits[i].Memory || others[at].Memory,
			})
		}
	}
	return both
}

func larger(a, b *resource.Quantity) *resource.Quantity {
	if a.Cmp(*b) < 0 {
		a = b
	}
	return new(a.DeepCopy())
}

// Tightens reports whether something that the limits before allow is above l.
func (l *DiskLimits) Tightens(before *DiskLimits) bool {
	return tightens(l.Volumes, before.Volumes) || tightens(l.Containers, before.Containers) ||
		l.Pod != nil && (before.Pod == nil || l.Pod.Cmp(*before.Pod) < 0)
}

func tightens(limits, before []DiskLimit) bool {
	return slices.ContainsFunc(limits, func(l DiskLimit) bool {
		return !slices.ContainsFunc(before, func(b DiskLimit) bool { return b.Name == l.Name && l.Limit.Cmp(b.Limit) >= 0 })
	})
}

// DiskUsage is what a pod was measured to use, in bytes. It may be less than what the pod
// uses where something could not be measured, and is never more.
type DiskUsage struct {
	// Volumes are all emptyDirs, on disk and in memory.
	Volumes map[string]int64
	// Pod is all that the pod has on the disk.
	Pod int64
	// Containers are writable layers and logs.
	Containers map[string]int64
}

// DecideEviction is the one place that decides about Evicted: it returns the end of a pod
// that uses more of the node's disk than it may, nil for one that does not.
// (kubelet eviction_manager.go:localStorageEviction)
func DecideEviction(limits *DiskLimits, used DiskUsage) *Termination {
	if limits == nil {
		return nil
	}
	if over := exceeded(limits.Volumes, used.Volumes); over != nil {
		return eviction(fmt.Sprintf(emptyDirMessage, over.Name, over.Limit.String()))
	}
	if limits.Pod != nil && limits.Pod.CmpInt64(used.Pod) < 0 {
		return eviction(fmt.Sprintf(podStorageMessage, limits.Pod.String()))
	}
	if over := exceeded(limits.Containers, used.Containers); over != nil {
		return eviction(fmt.Sprintf(containerStorageMessage, over.Name, over.Limit.String()))
	}
	return nil
}

// Evicted returns the end of a pod that was evicted before, by its status: that says why,
// whatever its containers answer. It is nil for all others. What was evicted for its node's sake
// keeps its own grace period here: the status does not say whether a threshold was hard or soft.
func Evicted(previous *corev1.PodStatus) *Termination {
	if previous == nil || previous.Reason != ReasonEvicted || !Ended(previous.Phase) {
		return nil
	}
	if strings.HasPrefix(previous.Message, lowPrefix) {
		return pressureTermination(previous.Message)
	}
	return eviction(previous.Message)
}

// exceeded is the first limit that is exceeded, nil if none is.
func exceeded(limits []DiskLimit, used map[string]int64) *DiskLimit {
	for i := range limits {
		if bytes, measured := used[limits[i].Name]; measured && limits[i].exceeded(bytes) {
			return &limits[i]
		}
	}
	return nil
}

// exceeded reports whether so many bytes are more than the limit. What is in memory takes
// whole pages: a volume that is full to its limit may have a part of one more.
func (l *DiskLimit) exceeded(bytes int64) bool {
	if l.Memory {
		bytes -= largestPage - 1
	}
	return l.Limit.CmpInt64(bytes) < 0
}

func eviction(message string) *Termination {
	return &Termination{
		Trigger: v1alpha1.TriggerEvicted, Override: new(int64(evictionGracePeriod)),
		Reason: ReasonEvicted, Message: message, RequestedBy: requestedByDiskLimit,
	}
}
