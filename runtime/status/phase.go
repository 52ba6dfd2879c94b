// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// configSourceAnnotation marks a pod that did not come from an API server; the
// kubelet gives those no terminal phase.
const configSourceAnnotation = "kubernetes.io/config.source"

// tally counts containers by what they mean for the phase.
type tally struct {
	pendingInit, failedInit, pendingSidecars                   int
	unknown, running, waiting, stopped, notRestarts, succeeded int
	phaseFacts
}

// phaseFacts are what a phase depends on beside the statuses.
type phaseFacts struct {
	// due are containers that are started whatever their restart policy, and lost are init
	// containers whose newest instance ended with another sandbox.
	due, lost map[string]bool
	// terminal: nothing is started any more. initialized: the newest sandbox has a main
	// container.
	terminal, initialized bool
}

func (c *conversion) forPhase() phaseFacts {
	return phaseFacts{
		due: c.due(), lost: c.lost(), terminal: c.in.Terminal,
		initialized: anyActiveMainContainer(&c.in.Pod.Spec, c.observed),
	}
}

// lost are the init containers whose exit says nothing, because no instance of theirs ran in a
// sandbox that is ready: they run again in the next one. The kubelet does not tell.
func (c *conversion) lost() map[string]bool {
	lost := map[string]bool{}
	if !c.in.Differences.NextSandbox || c.in.Terminal {
		return lost
	}
	for i := range c.in.Pod.Spec.InitContainers {
		name := c.in.Pod.Spec.InitContainers[i].Name
		s := c.observed.Current(name)
		lost[name] = s == nil || s.State == plan.ContainerCreated || len(c.observed.Sandboxes) == 0 ||
			s.SandboxID != "" && s.SandboxID != c.observed.Sandboxes[0].ID || !isReadySandbox(c.observed.Sandboxes[0])
	}
	return lost
}

// phase returns the phase of a pod from the statuses of all its containers.
// (kubelet kubelet_pods.go:getPhase)
func phase(pod *corev1.Pod, statuses []corev1.ContainerStatus, facts phaseFacts) corev1.PodPhase {
	t := tally{phaseFacts: facts}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		status := statusByName(statuses, container.Name)
		if podspec.IsSidecar(container) {
			t.addSidecar(status)
		} else {
			t.addInit(pod, container, status)
		}
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		t.addMain(pod, container, statusByName(statuses, container.Name))
	}
	t.terminal = t.terminal && !isStatic(pod)
	return t.phase()
}

func (t *tally) phase() corev1.PodPhase {
	switch {
	case t.failedInit > 0:
		return corev1.PodFailed
	case t.pendingInit > 0, t.pendingSidecars > 0 && !t.initialized, t.waiting > 0, t.unknown > 0:
		return corev1.PodPending
	case t.running > 0:
		return corev1.PodRunning
	case t.stopped == 0:
		return corev1.PodPending
	case !t.terminal && t.stopped != t.notRestarts:
		// At least one is about to be restarted.
		return corev1.PodRunning
	case t.stopped == t.succeeded:
		return corev1.PodSucceeded
	default:
		return corev1.PodFailed
	}
}

// addInit counts an init container that is to end; failedInit counts those that
// are never started again.
func (t *tally) addInit(pod *corev1.Pod, container *corev1.Container, status *corev1.ContainerStatus) {
	exit := exitOf(status)
	switch {
	case exit == nil:
		t.pendingInit++
	case t.due[container.Name] && !t.initialized:
		t.pendingInit++
	case exit.ExitCode == 0 || restarts(pod, container, exit):
	case t.lost[container.Name] && !t.initialized:
		t.pendingInit++
	default:
		t.failedInit++
	}
}

// addSidecar counts a sidecar; one that has ended, or is kept stopped, plays no part.
func (t *tally) addSidecar(status *corev1.ContainerStatus) {
	switch {
	case status == nil:
		t.unknown++
	case status.State.Running != nil:
		if status.Started == nil || !*status.Started {
			t.pendingSidecars++
		}
		t.running++
	case exitOf(status) != nil, held(status):
	case status.State.Waiting != nil:
		t.pendingSidecars++
		t.waiting++
	default:
		t.pendingSidecars++
		t.unknown++
	}
}

func (t *tally) addMain(pod *corev1.Pod, container *corev1.Container, status *corev1.ContainerStatus) {
	exit := exitOf(status)
	switch {
	case status == nil:
		t.unknown++
	case status.State.Running != nil:
		t.running++
	case exit != nil:
		t.stopped++
		if !held(status) && !t.due[container.Name] && !restarts(pod, container, exit) {
			t.notRestarts++
		}
		// The exit of one that waits for its restart is not a success yet.
		if status.State.Terminated != nil && exit.ExitCode == 0 {
			t.succeeded++
		}
	case status.State.Waiting != nil:
		t.waiting++
	default:
		t.unknown++
	}
}

// held is whether a container is kept stopped: it is started again some time.
func held(status *corev1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.State.Waiting.Reason == v1alpha1.ReasonStopRequested
}

// exitOf returns how a container ended that has ended or waits for its restart,
// nil for any other.
func exitOf(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case status == nil || status.State.Running != nil:
		return nil
	case status.State.Terminated != nil:
		return status.State.Terminated
	case status.State.Waiting != nil:
		return status.LastTerminationState.Terminated
	default:
		return nil
	}
}

// restarts is whether a container that ended so is started again.
func restarts(pod *corev1.Pod, container *corev1.Container, exit *corev1.ContainerStateTerminated) bool {
	return exit.Reason == reasonRestartingAllContainers || plan.ContainerShouldRestart(pod, container, exit.ExitCode)
}

// anyActiveMainContainer is whether the newest sandbox has a main container,
// in any state: then the pod has been initialized.
// (kubelet container/helpers.go:HasAnyActiveRegularContainerStarted)
func anyActiveMainContainer(spec *corev1.PodSpec, observed *plan.PodStatus) bool {
	for i := range observed.Containers {
		cs := &observed.Containers[i]
		if slices.Contains(observed.ActiveContainerIDs, cs.ID) && isMain(spec, cs.Name) {
			return true
		}
	}
	return false
}

func isMain(spec *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

func isStatic(pod *corev1.Pod) bool {
	source, ok := pod.Annotations[configSourceAnnotation]
	return ok && source != "api"
}
