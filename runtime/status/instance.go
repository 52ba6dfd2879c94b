// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// convert returns the status of one instance of a container.
// (kubelet kubelet_pods.go:convertContainerStatus)
func (c *conversion) convert(container *corev1.Container, cs *plan.ContainerStatus, old *corev1.ContainerStatus) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name:               cs.Name,
		RestartCount:       int32(cs.RestartCount),
		Image:              cs.Image,
		ImageID:            cs.ImageRef,
		ContainerID:        c.containerID(cs.ID),
		VolumeMounts:       volumeMounts(container, c.in.RecursiveReadOnlyMounts),
		AllocatedResources: maps.Clone(container.Resources.Requests),
		User:               cs.User.DeepCopy(),
	}
	if cs.StopSignal != "" {
		signal := corev1.Signal(cs.StopSignal)
		status.StopSignal = &signal
	}
	if old != nil {
		carryOver(&status, old)
	}
	c.setState(&status, cs, old)
	if cs.State == plan.ContainerRunning && c.counts(&status, old) && old.Started != nil && (*old.Started || old.State.Running != nil) {
		started := *old.Started
		status.Started = &started
	}
	status.Resources = c.resources(container, &status, cs, old)
	return status
}

// sameInstance reports whether an earlier status is about the same instance of the container: only
// then does what it says of the instance count.
func sameInstance(status, old *corev1.ContainerStatus) bool {
	return old != nil && status.ContainerID != "" && old.ContainerID == status.ContainerID
}

// counts reports whether an earlier status says something about this instance.
func (c *conversion) counts(status, old *corev1.ContainerStatus) bool {
	return sameInstance(status, old) || old != nil && c.in.AsKubelet
}

// restarted reports whether a container runs in another instance than the one that was seen to
// end. One that was not found for a while, and is there again, is the same.
func (c *conversion) restarted(status, old *corev1.ContainerStatus) bool {
	return old != nil && old.State.Terminated != nil && (!sameInstance(status, old) || c.in.AsKubelet)
}

// carryOver takes over what the runtime forgets when containers are removed.
func carryOver(status, old *corev1.ContainerStatus) {
	status.RestartCount = max(status.RestartCount, old.RestartCount)
	switch {
	case old.ContainerID != status.ContainerID && old.State.Terminated != nil:
		status.LastTerminationState.Terminated = old.State.Terminated.DeepCopy()
	case old.LastTerminationState.Terminated != nil:
		status.LastTerminationState.Terminated = old.LastTerminationState.Terminated.DeepCopy()
	}
	if sameInstance(status, old) && old.VolumeMounts != nil {
		// The template may have changed since; mounts of an instance do not.
		status.VolumeMounts = old.DeepCopy().VolumeMounts
	}
}

func (c *conversion) setState(status *corev1.ContainerStatus, cs *plan.ContainerStatus, old *corev1.ContainerStatus) {
	switch {
	case cs.State == plan.ContainerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(cs.StartedAt)}
		c.countRestart(status, cs, old)
	case cs.State == plan.ContainerExited:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode:    cs.ExitCode,
			Reason:      cs.Reason,
			Message:     cs.Message,
			StartedAt:   metav1.NewTime(cs.StartedAt),
			FinishedAt:  metav1.NewTime(cs.FinishedAt),
			ContainerID: status.ContainerID,
		}
	case cs.State == plan.ContainerUnknown && old != nil && old.State.Running != nil:
		// It ran and does not any more. Waiting would say that it never ran.
		reason := reasonContainerStatusUnknown
		if c.restartingAll {
			reason = reasonRestartingAllContainers
		}
		status.State.Terminated = unseenExit(reason, messageLocateTerminated)
		status.RestartCount = old.RestartCount + 1
	case cs.State == plan.ContainerCreated && !c.in.AsKubelet:
		status.State = waiting(reasonContainerCreating, "") // the kubelet gives no reason
		c.countRestart(status, cs, old)
	default:
		// Created, or unknown and never seen to run.
		status.State.Waiting = &corev1.ContainerStateWaiting{}
	}
}

// countRestart counts an instance after one that was seen to end, where the runtime has forgotten that one.
func (c *conversion) countRestart(status *corev1.ContainerStatus, cs *plan.ContainerStatus, old *corev1.ContainerStatus) {
	if c.restarted(status, old) && int(old.RestartCount) >= cs.RestartCount {
		status.RestartCount = old.RestartCount + 1
	}
}

// containerID returns the ID of a container as the API writes it.
func (c *conversion) containerID(id string) string {
	return c.in.RuntimeName + "://" + id
}

// resources returns the resources in effect: those of the spec, and for a
// running container those in their place that the runtime reports, or, where it
// does not say, those that the container was given last.
// (kubelet kubelet_pods.go:convertContainerStatusResources)
func (c *conversion) resources(container *corev1.Container, status *corev1.ContainerStatus, cs *plan.ContainerStatus, old *corev1.ContainerStatus) *corev1.ResourceRequirements {
	result := container.Resources.DeepCopy()
	if cs.State != plan.ContainerRunning {
		return result
	}
	var before, actual corev1.ResourceRequirements
	if sameInstance(status, old) && old.State.Running != nil && old.Resources != nil {
		before = *old.Resources
	}
	if cs.Resources != nil {
		actual = *cs.Resources
	}
	if given, ok := plan.Actuated(c.in.Actuated, cs); ok {
		before = given.Requirements()
		maps.DeleteFunc(before.Requests, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	}
	setActual(result.Limits, actual.Limits, before.Limits, plan.MinMilliCPULimit)
	setActual(result.Requests, actual.Requests, before.Requests, plan.MinMilliCPURequest)
	return result
}

// setActual replaces cpu and memory of a list by the actual values, or, where
// there is none, by those reported before. An unset list stays unset.
func setActual(list, actual, before corev1.ResourceList, minMilliCPU int64) {
	if list == nil {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := actual[name]; ok {
			if name != corev1.ResourceCPU || aboveMinimum(quantity, list[name], minMilliCPU) {
				list[name] = quantity.DeepCopy()
			}
		} else if quantity, ok := before[name]; ok {
			list[name] = quantity.DeepCopy()
		}
	}
}

func aboveMinimum(actual, desired resource.Quantity, minMilliCPU int64) bool {
	return actual.MilliValue() > minMilliCPU || desired.MilliValue() > minMilliCPU
}

// volumeMounts returns the status of a container's mounts.
func volumeMounts(container *corev1.Container, recursiveReadOnly bool) []corev1.VolumeMountStatus {
	if len(container.VolumeMounts) == 0 {
		return nil
	}
	statuses := make([]corev1.VolumeMountStatus, 0, len(container.VolumeMounts))
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		status := corev1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if recursiveReadOnly && wantsRecursiveReadOnly(mount) {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			status.RecursiveReadOnly = &mode
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// wantsRecursiveReadOnly is whether a read-only mount is to be read-only in
// what is mounted below it, too. (kubelet kubelet_pods.go:resolveRecursiveReadOnly)
func wantsRecursiveReadOnly(mount *corev1.VolumeMount) bool {
	if mount.RecursiveReadOnly == nil {
		return false
	}
	if mount.MountPropagation != nil && *mount.MountPropagation != corev1.MountPropagationNone {
		return false
	}
	mode := *mount.RecursiveReadOnly
	return mode == corev1.RecursiveReadOnlyIfPossible || mode == corev1.RecursiveReadOnlyEnabled
}
