// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// resize lists the containers that get other resources while they run. The limits
// of the pod follow.
func (b *builder) resize(a plan.Actions) {
	if a.KillPod || !a.Resizes() {
		return
	}
	var done []string
	for _, u := range slices.Concat(a.MemoryToUpdate, a.CPUToUpdate) {
		if slices.Contains(done, u.ID) {
			continue
		}
		done = append(done, u.ID)
		b.step(Step{
			Action: ActionResize, Container: u.Name, Kind: kindOf(b.Pod, u.Name), ID: u.ID, Message: resizeMessage(u),
		})
	}
	if a.UpdatePodResources {
		b.note("The limits of the pod's cgroup change with those of its containers.")
	}
}

func resizeMessage(u plan.ResourceUpdate) string {
	var parts []string
	add := func(what string, from, to int64, format func(int64) string) {
		if from != to {
			parts = append(parts, fmt.Sprintf("%s from %s to %s", what, format(from), format(to)))
		}
	}
	add("CPU request", u.Current.CPURequest, u.Desired.CPURequest, milli)
	add("CPU limit", u.Current.CPULimit, u.Desired.CPULimit, milli)
	add("memory request", u.Current.MemoryRequest, u.Desired.MemoryRequest, byteCount)
	add("memory limit", u.Current.MemoryLimit, u.Desired.MemoryLimit, byteCount)
	return strings.Join(parts, ", ")
}

func milli(n int64) string {
	if n == 0 {
		return "none"
	}
	return resource.NewMilliQuantity(n, resource.DecimalSI).String()
}

func byteCount(n int64) string {
	if n == 0 {
		return "none"
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// actuated is what running containers were given last, by the last status, or
// by the runtime where the status does not say.
func (b *builder) actuated() map[string]plan.Resources {
	given := map[string]plan.Resources{}
	for i := range b.Observed.Containers {
		if s := &b.Observed.Containers[i]; s.State == plan.ContainerRunning && s.Recorded.Resources != nil && s.Resources != nil {
			given[s.ID] = reported(s, b.definitions.Resources[s.Name])
		}
	}
	if b.Status == nil {
		return given
	}
	for _, c := range slices.Concat(b.Status.InitContainerStatuses, b.Status.ContainerStatuses) {
		if _, id, _ := strings.Cut(c.ContainerID, "://"); id != "" && c.Resources != nil && c.State.Running != nil {
			r := corev1.ResourceRequirements{Limits: c.Resources.Limits, Requests: c.Resources.Requests}
			given[id] = plan.ResourcesOf(&r)
		}
	}
	return given
}

// reported is what a container was given last by the runtime's report, which
// rounds, and lacks the memory request: one that may have changed with the limit
// is taken to be what it is to be.
func reported(s *plan.ContainerStatus, desired plan.Resources) plan.Resources {
	given, now := *s.Recorded.Resources, plan.ResourcesOf(s.Resources)
	if max(given.CPURequest, now.CPURequest) > plan.MinMilliCPURequest {
		given.CPURequest = now.CPURequest
	}
	if max(given.CPULimit, now.CPULimit) > plan.MinMilliCPULimit {
		given.CPULimit = now.CPULimit
	}
	if given.MemoryLimit != now.MemoryLimit {
		given.MemoryLimit, given.MemoryRequest = now.MemoryLimit, desired.MemoryRequest
	}
	return given
}
