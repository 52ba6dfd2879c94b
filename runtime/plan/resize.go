// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Resources are what a running container can be given without a restart: CPU in
// thousandths, memory in bytes; 0 where there is none.
type Resources struct {
	CPURequest    int64 `json:"cpuRequest,omitempty"`
	CPULimit      int64 `json:"cpuLimit,omitempty"`
	MemoryRequest int64 `json:"memoryRequest,omitempty"`
	MemoryLimit   int64 `json:"memoryLimit,omitempty"`
}

// The least CPU, in thousandths, that a cgroup can be given: whatever less was
// asked for, a runtime reports these. (kubelet cm/helpers_linux.go)
const (
	MinMilliCPULimit   = 10
	MinMilliCPURequest = 2
)

// ResourcesOf returns the resources of a container's spec.
func ResourcesOf(r *corev1.ResourceRequirements) Resources {
	return Resources{
		CPURequest:    r.Requests.Cpu().MilliValue(),
		CPULimit:      r.Limits.Cpu().MilliValue(),
		MemoryRequest: r.Requests.Memory().Value(),
		MemoryLimit:   r.Limits.Memory().Value(),
	}
}

// Requirements returns the resources as a spec has them. Requests are always
// there, because one that is missing would be taken from the limit.
func (r Resources) Requirements() corev1.ResourceRequirements {
	limits := corev1.ResourceList{}
	if r.CPULimit > 0 {
		limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.CPULimit, resource.DecimalSI)
	}
	if r.MemoryLimit > 0 {
		limits[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryLimit, resource.BinarySI)
	}
	return corev1.ResourceRequirements{Limits: limits, Requests: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.CPURequest, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.MemoryRequest, resource.BinarySI),
	}}
}

// With returns the resources with CPU or memory taken from another set.
func (r Resources) With(name corev1.ResourceName, from Resources) Resources {
	if name == corev1.ResourceCPU {
		r.CPURequest, r.CPULimit = from.CPURequest, from.CPULimit
	}
	if name == corev1.ResourceMemory {
		r.MemoryRequest, r.MemoryLimit = from.MemoryRequest, from.MemoryLimit
	}
	return r
}

// ResourceUpdate is a running container whose resources change without a
// restart.
type ResourceUpdate struct {
	// ID and Name of the container.
	ID, Name string
	// Current is what the container was given last, Desired what it is to have.
	Current, Desired Resources
}

// Actuated returns what a container was given last: by an update, else at its
// creation. False when that is not known.
func Actuated(updates map[string]Resources, s *ContainerStatus) (Resources, bool) {
	if r, ok := updates[s.ID]; ok {
		return r, true
	}
	if s.Recorded.Resources != nil {
		return *s.Recorded.Resources, true
	}
	return Resources{}, false
}

// ResizeInProgress reports whether a running container does not have the resources of its spec,
// also while the restart that gives it those waits.
// (kubelet kuberuntime_manager.go:IsPodResizeInProgress)
func ResizeInProgress(in Input) bool {
	if in.Pod == nil || in.Observed == nil {
		return false
	}
	in.Unconfirmed = false // nothing is killed or changed for it
	p := planner{Input: in}
	for c := range podspec.InitAndMain(in.Pod) {
		s := in.Observed.Current(c.Name)
		if s != nil && s.State == ContainerRunning && p.candidate(c, s).resized() {
			return true
		}
	}
	return false
}

// resized is whether the resources are not those that the container was given
// last.
func (f candidate) resized() bool { return f.current != f.desired }

// resizeRequired is the one place that decides whether changed resources need a
// restart: the container's resizePolicy says so, and without one they do not.
// (kubelet kuberuntime_manager.go:computePodResizeAction)
func resizeRequired(f candidate) bool {
	if !f.resized() {
		return false
	}
	cpu := f.current.CPULimit != f.desired.CPULimit || f.current.CPURequest != f.desired.CPURequest
	memory := f.current.MemoryLimit != f.desired.MemoryLimit || f.current.MemoryRequest != f.desired.MemoryRequest
	return cpu && restartsToResize(f.container, corev1.ResourceCPU) ||
		memory && restartsToResize(f.container, corev1.ResourceMemory)
}

func restartsToResize(c *corev1.Container, name corev1.ResourceName) bool {
	for _, policy := range c.ResizePolicy {
		if policy.ResourceName == name {
			return policy.RestartPolicy == corev1.RestartContainer
		}
	}
	return false
}

// update changes the resources of a container that is kept. Decreases come before
// increases. (kubelet kuberuntime_manager.go:computePodResizeAction)
func (p *planner) update(f candidate) {
	if !f.resized() {
		return
	}
	u := ResourceUpdate{ID: f.status.ID, Name: f.container.Name, Current: f.current, Desired: f.desired}
	a := &p.actions
	a.MemoryToUpdate = addUpdate(a.MemoryToUpdate, u, f.desired.MemoryLimit-f.current.MemoryLimit, f.desired.MemoryRequest-f.current.MemoryRequest)
	a.CPUToUpdate = addUpdate(a.CPUToUpdate, u, f.desired.CPULimit-f.current.CPULimit, f.desired.CPURequest-f.current.CPURequest)
}

// addUpdate adds an update by how much limit and request change; the limit
// decides, if it does.
func addUpdate(list []ResourceUpdate, u ResourceUpdate, limit, request int64) []ResourceUpdate {
	change := limit
	if change == 0 {
		change = request
	}
	switch {
	case change > 0:
		return append(list, u)
	case change < 0:
		return slices.Insert(list, 0, u)
	default:
		return list
	}
}
