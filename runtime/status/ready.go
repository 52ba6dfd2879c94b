// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// applyProbes sets started and ready from the verdicts of the probes.
// (kubelet prober/prober_manager.go:UpdatePodStatus)
func (c *conversion) applyProbes(st, old *corev1.PodStatus) {
	spec := &c.in.Pod.Spec
	for i := range st.ContainerStatuses {
		status := &st.ContainerStatuses[i]
		c.applyProbesTo(status, containerByName(spec.Containers, status.Name), old.ContainerStatuses)
	}
	for i := range st.InitContainerStatuses {
		status := &st.InitContainerStatuses[i]
		container := containerByName(spec.InitContainers, status.Name)
		if podspec.IsSidecar(container) {
			c.applyProbesTo(status, container, old.InitContainerStatuses)
			continue
		}
		started := c.isStarted(status, container)
		status.Started = &started
		if status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 {
			status.Ready = true
		}
	}
}

func (c *conversion) applyProbesTo(status *corev1.ContainerStatus, container *corev1.Container, previous []corev1.ContainerStatus) {
	started := c.isStarted(status, container)
	status.Started = &started
	if started {
		status.Ready = c.isReady(status, container, statusByName(previous, status.Name))
	}
}

// isStarted reports whether an instance runs and has passed its startup probe, if it has one.
// Without a verdict it is what it was, also where nothing is known of the probe that it has. (kubelet prober/prober_manager.go:isContainerStarted)
func (c *conversion) isStarted(status *corev1.ContainerStatus, container *corev1.Container) bool {
	if status.State.Running == nil {
		return false
	}
	if verdict := c.probes(status.ContainerID).Startup; verdict != "" {
		return verdict == plan.ProbeSuccess
	}
	if status.Started != nil && (*status.Started || !c.in.AsKubelet) {
		return *status.Started
	}
	return container.StartupProbe == nil || c.in.AsKubelet
}

// isReady reports whether a started instance is ready. Without a verdict one that has a
// readiness probe is not ready, but for one that ran before this shim started: that one stays
// what it was. (kubelet prober/prober_manager.go:setReadyStateOnKubeletRestart)
func (c *conversion) isReady(status *corev1.ContainerStatus, container *corev1.Container, previous *corev1.ContainerStatus) bool {
	verdict := c.probes(status.ContainerID).Readiness
	switch {
	case container.ReadinessProbe == nil, verdict == plan.ProbeSuccess:
		return true
	case verdict != "" || !plan.StartedByEarlierAgent(status.State.Running.StartedAt.Time, c.in.AgentStartedAt):
		return false
	}
	return sameInstance(status, previous) && previous.Ready
}

// probes returns the verdicts about a container by its ID as the API writes it.
func (c *conversion) probes(containerID string) plan.ProbeResults {
	_, id, _ := strings.Cut(containerID, "://")
	return c.in.Probes[id]
}

// containerByName returns the container of a name; the statuses of a list are
// made from the list, so that it is there.
func containerByName(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return &corev1.Container{Name: name}
}
