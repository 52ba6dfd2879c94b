// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Waiting and terminated reasons that a status gives by itself; others come from
// the runtime and from start attempts. (kubelet kubelet_pods.go, container/runtime.go)
const (
	reasonContainerCreating       = "ContainerCreating"
	reasonPodInitializing         = "PodInitializing"
	reasonContainerStatusUnknown  = "ContainerStatusUnknown"
	reasonRestartingAllContainers = "RestartingAllContainers"
	reasonCompleted               = "Completed"
)

const (
	messageLocateTerminated = "The container could not be located when the pod was terminated"
	messageLocateDeleted    = "The container could not be located when the pod was deleted.  The container used to be Running"
	messageRestartingAll    = "The container is removed because RestartAllContainers in place"
	messageInitLost         = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
)

// exitCodeUnknown stands for an exit that was not observed: as after SIGKILL.
const exitCodeUnknown = 137

// conversion holds what all container statuses of one pod are made from.
type conversion struct {
	in *Input
	// observed are the facts, never nil.
	observed *plan.PodStatus
	// restartingAll is true while all containers of the pod are restarted.
	restartingAll bool
}

// containerStatuses returns the statuses of one list of containers, with neither
// ready nor the final started: init containers in the order of the spec, others
// by name. (kubelet kubelet_pods.go:convertToAPIContainerStatuses)
func (c *conversion) containerStatuses(containers []corev1.Container, previous []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, 0, len(containers))
	for i := range containers {
		container := &containers[i]
		old := statusByName(previous, container.Name)
		status := c.current(container, old)
		c.applyWaiting(&status, container, init)
		statuses = append(statuses, status)
	}
	if !init {
		slices.SortStableFunc(statuses, func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	return statuses
}

// current returns the status of a container from the newest two instances the
// runtime knows, or from the previous status when it knows none.
func (c *conversion) current(container *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	instances := newestInstances(c.observed, container.Name)
	if len(instances) == 0 {
		status := c.initial(container, old)
		if old != nil {
			c.applyMissing(&status, old)
		}
		return status
	}
	status := c.convert(container, instances[0], old)
	if len(instances) > 1 {
		status.LastTerminationState = c.convert(container, instances[1], old).State
	}
	return status
}

// initial returns the status of a container that the runtime does not know: it
// waits, unless it was seen terminated before.
func (c *conversion) initial(container *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	if old != nil && old.State.Terminated != nil {
		return *old.DeepCopy()
	}
	reason := reasonContainerCreating
	if len(c.in.Pod.Spec.InitContainers) > 0 {
		reason = reasonPodInitializing
	}
	status := corev1.ContainerStatus{
		Name:         container.Name,
		Image:        container.Image,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		VolumeMounts: volumeMounts(container, c.in.RecursiveReadOnlyMounts),
	}
	if old != nil {
		status.RestartCount = old.RestartCount
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
	return status
}

// applyMissing reports a container that ran before and that the runtime does
// not know any more: its end was not seen.
func (c *conversion) applyMissing(status, old *corev1.ContainerStatus) {
	switch {
	case c.restartingAll && old.State.Waiting == nil:
		status.State = waiting(reasonRestartingAllContainers, messageRestartingAll)
		status.LastTerminationState.Terminated = unseenExit(reasonRestartingAllContainers, messageRestartingAll)
		status.RestartCount = old.RestartCount + 1
	case old.State.Terminated != nil || old.State.Running == nil:
	case status.LastTerminationState.Terminated != nil:
	default:
		// Without it the pod would fall back to Pending.
		status.LastTerminationState.Terminated = unseenExit(reasonContainerStatusUnknown, messageLocateDeleted)
		if c.in.Pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
}

// applyWaiting makes a container that is to be started wait with the reason of
// the last start attempt, and reports an init container that is long gone.
func (c *conversion) applyWaiting(status *corev1.ContainerStatus, container *corev1.Container, init bool) {
	current := c.observed.Current(container.Name)
	if init {
		if current != nil && current.State == plan.ContainerExited && current.ExitCode == 0 {
			return
		}
		if current == nil && !podspec.IsSidecar(container) && status.State.Waiting != nil &&
			anyMainContainerCreated(&c.in.Pod.Spec, c.observed) {
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: reasonCompleted, Message: messageInitLost,
			}}
			return
		}
	}
	reason, ok := c.waitReason(container, current)
	if !ok {
		return
	}
	if status.State.Terminated != nil {
		status.LastTerminationState = status.State
	}
	status.State = waiting(reason.Reason, reason.Message)
}

// waitReason returns why a container waits that does not run, if that is known: one that is
// kept stopped, and one that is to be started.
func (c *conversion) waitReason(container *corev1.Container, current *plan.ContainerStatus) (reason Reason, ok bool) {
	if held, ok := c.in.Held[container.Name]; ok && (current == nil || current.State != plan.ContainerRunning) {
		return held, true
	}
	if !plan.ShouldContainerBeRestarted(c.in.Pod, container, c.observed) && !c.in.Owed.Starts(container.Name, current) {
		return Reason{}, false
	}
	reason, ok = c.in.Waiting[container.Name]
	return reason, ok
}

// due are the containers that were ended on request or for a change and are to run again, by name.
func (c *conversion) due() map[string]bool {
	due := map[string]bool{}
	for name := range c.in.Owed {
		due[name] = c.in.Owed.Starts(name, c.observed.Current(name))
	}
	return due
}

// newestInstances returns at most the two newest instances of a name, newest
// first.
func newestInstances(observed *plan.PodStatus, name string) []*plan.ContainerStatus {
	var instances []*plan.ContainerStatus
	for i := range observed.Containers {
		if observed.Containers[i].Name == name {
			instances = append(instances, &observed.Containers[i])
		}
	}
	slices.SortStableFunc(instances, func(a, b *plan.ContainerStatus) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return instances[:min(len(instances), 2)]
}

// anyMainContainerCreated is whether a main container got as far as its
// creation; unknown ones do not count. (kubelet kuberuntime_container.go:HasAnyRegularContainerCreated)
func anyMainContainerCreated(spec *corev1.PodSpec, observed *plan.PodStatus) bool {
	return slices.ContainsFunc(spec.Containers, func(container corev1.Container) bool {
		current := observed.Current(container.Name)
		return current != nil && current.State != plan.ContainerUnknown
	})
}

// statusByName returns the status of a name, nil if there is none.
func statusByName(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func unseenExit(reason, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: exitCodeUnknown, Reason: reason, Message: message}
}
