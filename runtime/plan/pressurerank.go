// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// PodUse is what a pod uses of its node. What could not be measured is nil.
type PodUse struct {
	// Memory is the working set, in bytes.
	Memory *int64
	// Processes is how many processes the pod has.
	Processes  *int64
	Containers []ContainerUse
	Volumes    []VolumeUse
}

// ContainerUse is what a container uses: its working set in bytes, its writable layer and its
// logs.
type ContainerUse struct {
	Name         string
	Memory       *int64
	RootFs, Logs DiskUse
}

// VolumeUse is what a volume of the pod uses.
type VolumeUse struct {
	Name string
	DiskUse
}

// DiskUse is a part of a file system.
type DiskUse struct{ Bytes, Inodes *int64 }

// of is the part of it that a resource names.
func (d DiskUse) of(name corev1.ResourceName) int64 {
	if name == resourceInodes {
		return known(d.Inodes)
	}
	return known(d.Bytes)
}

func known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Candidate is a pod that may be evicted. Use is nil where nothing could be measured.
type Candidate struct {
	Pod *corev1.Pod
	Use *PodUse
}

// Rank orders candidates for a signal, the one to evict first in front. separate says that the
// runtime keeps images and writable layers on a disk of their own. Those that compare equal stay
// in their order. (kubelet eviction/helpers.go:buildSignalToRankFunc)
func Rank(candidates []Candidate, s Signal, separate bool) []Candidate {
	var compare func(a, b *Candidate) int
	switch s {
	case SignalMemoryAvailable:
		compare = byUse(corev1.ResourceMemory, corev1.ResourceMemory, func(c *Candidate) int64 { return known(c.Use.Memory) })
	case SignalPIDAvailable:
		compare = byProcesses
	case SignalNodeFsAvailable, SignalNodeFsInodesFree:
		compare = byDisk(s, !separate, true)
	case SignalImageFsAvailable, SignalImageFsInodesFree:
		compare = byDisk(s, true, !separate)
	}
	ranked := slices.Clone(candidates)
	slices.SortStableFunc(ranked, func(a, b Candidate) int { return compare(&a, &b) })
	return ranked
}

// byUse orders by: not measured, uses more than it requests, priority, use above the request.
// The request of the last step is that of subtract. (kubelet eviction/helpers.go:
// rankMemoryPressure, rankDiskPressureFunc)
func byUse(name, subtract corev1.ResourceName, use func(*Candidate) int64) func(a, b *Candidate) int {
	exceeds := func(c *Candidate) bool {
		request := requested(c.Pod, name)
		return request.CmpInt64(use(c)) < 0
	}
	above := func(c *Candidate) resource.Quantity {
		over := *resource.NewQuantity(use(c), resource.BinarySI)
		over.Sub(requested(c.Pod, subtract))
		return over
	}
	return func(a, b *Candidate) int {
		measured := a.Use != nil && b.Use != nil
		order := cmpBool(a.Use == nil, b.Use == nil)
		if measured {
			order = cmpBool(exceeds(a), exceeds(b))
		}
		if order = cmp.Or(order, byPriority(a, b)); order != 0 || !measured {
			return order
		}
		overA, overB := above(a), above(b)
		return overB.Cmp(overA)
	}
}

// byDisk is byUse for a disk: of the writable layers, and of logs and volumes. The request that
// is subtracted is that of bytes, also where inodes are short, as the kubelet does it.
func byDisk(s Signal, layers, logsAndVolumes bool) func(a, b *Candidate) int {
	name := s.Resource()
	return byUse(name, corev1.ResourceEphemeralStorage, func(c *Candidate) (sum int64) {
		for i := range c.Use.Containers {
			if layers {
				sum += c.Use.Containers[i].RootFs.of(name)
			}
			if logsAndVolumes {
				sum += c.Use.Containers[i].Logs.of(name)
			}
		}
		if logsAndVolumes {
			sum += ofLocalVolumes(c, name)
		}
		return sum
	})
}

// ofLocalVolumes is what the volumes use that lie on the node's disk. (kubelet
// eviction/helpers.go:localVolumeNames)
func ofLocalVolumes(c *Candidate, name corev1.ResourceName) (sum int64) {
	for i := range c.Pod.Spec.Volumes {
		v := &c.Pod.Spec.Volumes[i]
		local := v.HostPath != nil || v.GitRepo != nil || v.ConfigMap != nil ||
			v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
		if !local {
			continue
		}
		if at := slices.IndexFunc(c.Use.Volumes, func(u VolumeUse) bool { return u.Name == v.Name }); at >= 0 {
			sum += c.Use.Volumes[at].of(name)
		}
	}
	return sum
}

// byProcesses orders by priority, and then by processes. (kubelet eviction/helpers.go:
// rankPIDPressure)
func byProcesses(a, b *Candidate) int {
	order := byPriority(a, b)
	switch {
	case order != 0:
		return order
	case a.Use == nil || b.Use == nil:
		return cmpBool(a.Use == nil, b.Use == nil)
	}
	return cmp.Compare(known(b.Use.Processes), known(a.Use.Processes))
}

func byPriority(a, b *Candidate) int { return cmp.Compare(priority(a.Pod), priority(b.Pod)) }

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// requested is what a pod requests, with the overhead of running it. (kubelet
// api/v1/resource/helpers.go:GetResourceRequestQuantity)
func requested(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	options := podresources.PodResourcesOptions{SkipContainerLevelResources: podresources.IsPodLevelResourcesSet(pod), ExcludeOverhead: true}
	request := podresources.PodRequests(pod, options)[name]
	if overhead, set := pod.Spec.Overhead[name]; set && !request.IsZero() {
		request.Add(overhead)
	}
	return request
}

// cmpBool puts true in front.
func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
