// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Reason is why a container waits: the outcome of the last attempt to start it.
type Reason = plan.Reason

// Input is what a pod's status is computed from.
type Input struct {
	// Pod is the desired pod, with its deletion if it is being deleted. Its own
	// status is not read.
	Pod *corev1.Pod
	// Previous is the status computed before, nil if there is none. After a
	// restart of the shim it comes from the API (PodStatus) or a checkpoint.
	Previous *corev1.PodStatus
	// Observed is what the runtime reports; nil reads as nothing at all.
	Observed *plan.PodStatus
	// Probes are the verdicts of the probes by container ID.
	Probes map[string]plan.ProbeResults
	// Actuated is what running containers were given since their creation, by
	// container ID.
	Actuated map[string]plan.Resources
	// Waiting is the outcome of the last start attempt by container name; an
	// entry is there as long as the last attempt failed or was held back.
	Waiting map[string]Reason
	// Terminal is true when no container will be started any more, whatever the
	// restart policy (the kubelet's podIsTerminal).
	Terminal bool
	// Ending is the end that was requested before the containers have ended, such
	// as DeadlineExceeded; nil if none was.
	Ending *plan.Termination
	// Differences from the kubelet.
	Differences plan.Differences
	// Resizing is set while a running container does not have the resources of
	// its spec, with a reason and a message if the last try to change them failed.
	Resizing *Reason
	// Held says why containers are kept stopped, by name.
	Held map[string]Reason
	// Owed are containers that were ended on request or for a change and are to run again.
	Owed plan.Owed
	// Unready is why the pod counts as not ready whatever its containers are, nil if it
	// does not.
	Unready *Reason
	// Conditions are those that others observe about the pod: its volumes and its
	// cgroup. One that is missing is removed.
	Conditions []corev1.PodCondition
	// AsKubelet carries over by a container's name what belongs to its instance, and counts a
	// container without a verdict as started when its startup probe is not run any more, as
	// the kubelet does. Only comparisons with the kubelet set it.
	AsKubelet bool
	// AgentStartedAt is when this shim started. A container that ran before is
	// not turned unready by a probe that has no verdict yet. Zero if unknown.
	AgentStartedAt time.Time
	// Now is the time of conditions that change and of a first start time.
	Now time.Time
	// HostIPs are the addresses of the node, the primary one first.
	HostIPs []string
	// RuntimeName is the scheme of container IDs in the status, such as
	// containerd in containerd://0123.
	RuntimeName string
	// RecursiveReadOnlyMounts is true when the runtime can make mounts read-only
	// recursively.
	RecursiveReadOnlyMounts bool
}

// Compute returns the status of a pod as the kubelet would report it.
// (kubelet kubelet_pods.go:generateAPIPodStatus, status/status_manager.go:updateStatusInternal)
func Compute(in Input) corev1.PodStatus {
	old := in.Previous
	if old == nil {
		old = &corev1.PodStatus{}
	}
	c := newConversion(&in, old)
	st := c.containerStatusesOfPod(old)
	converted := slices.Concat(st.ContainerStatuses, st.InitContainerStatuses)
	st.Phase = phase(in.Pod, converted, c.forPhase())
	c.applyPhase(&st, old)
	// Only after the phase: it depends on what had started before.
	c.applyProbes(&st, old)
	st.Conditions = c.conditions(&st, old)
	st.QOSClass = podspec.QOSClass(in.Pod)
	st.ObservedGeneration = in.Pod.Generation
	c.applyAddresses(&st, old)
	applyTimes(&st, old, in.Now, c.replaced(&st, old))
	normalize(in.Pod, &st)
	return st
}

func newConversion(in *Input, old *corev1.PodStatus) *conversion {
	observed := in.Observed
	if observed == nil {
		observed = &plan.PodStatus{}
	}
	return &conversion{
		in:            in,
		observed:      observed,
		restartingAll: plan.ShouldAllContainersRestart(in.Pod, observed, old),
	}
}

// containerStatusesOfPod returns a status with the statuses of all containers.
// (kubelet kubelet_pods.go:convertStatusToAPIStatus)
func (c *conversion) containerStatusesOfPod(old *corev1.PodStatus) corev1.PodStatus {
	spec := &c.in.Pod.Spec
	ephemeral := make([]corev1.Container, 0, len(spec.EphemeralContainers))
	for i := range spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return corev1.PodStatus{
		ContainerStatuses:          c.containerStatuses(spec.Containers, old.ContainerStatuses, false),
		InitContainerStatuses:      c.containerStatuses(spec.InitContainers, old.InitContainerStatuses, true),
		EphemeralContainerStatuses: c.containerStatuses(ephemeral, old.EphemeralContainerStatuses, false),
	}
}

// applyPhase keeps a terminal phase, and reason and message as long as the phase
// stays the same. An end that was asked for overrides all but a terminal phase.
func (c *conversion) applyPhase(st, old *corev1.PodStatus) {
	if plan.Ended(old.Phase) && !plan.Ended(st.Phase) {
		st.Phase = old.Phase
	}
	if st.Phase == old.Phase {
		st.Reason = old.Reason
		st.Message = old.Message
	}
	if ending := c.in.Ending; ending != nil {
		st.Phase = corev1.PodFailed
		st.Reason = cmp.Or(ending.Reason, st.Reason)
		st.Message = cmp.Or(ending.Message, st.Message)
	}
	if plan.Ended(old.Phase) {
		st.Phase = old.Phase
	}
}
