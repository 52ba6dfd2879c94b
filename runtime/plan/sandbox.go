// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// The network modes of a sandbox, as CRI names them.
const (
	NetworkPod  = "POD"
	NetworkNode = "NODE"
)

// Why a sandbox is replaced for a change of the template, in the words of the records.
const (
	messagePodChanged     = "Pod definition changed"
	messageNetworkChanged = "Network mode of the pod changed"
)

// sandboxVerdict is whether a pod needs a new sandbox.
type sandboxVerdict struct {
	needed bool
	// trigger and message say why.
	trigger v1alpha1.KillTrigger
	message string
	// redefined: the pod-level definition is another one since.
	redefined bool
	// changed: that, or the network mode, is why.
	changed bool
	// id is the sandbox to use, or the one that is replaced.
	id      string
	attempt uint32
}

// sandboxChange is the one place that decides about SandboxChanged.
// (kubelet kuberuntime/util:PodSandboxChanged, and the pod-level definition)
func sandboxChange(pod *corev1.Pod, observed *PodStatus, defs *Definitions, unconfirmed bool) sandboxVerdict {
	if len(observed.Sandboxes) == 0 {
		return sandboxVerdict{needed: true, trigger: v1alpha1.TriggerSandboxChanged, message: "Pod has no sandbox"}
	}
	newest := &observed.Sandboxes[0]
	redefined := podDefinitionChanged(defs, newest)
	replace := sandboxVerdict{
		needed: true, trigger: v1alpha1.TriggerSandboxChanged, redefined: redefined, id: newest.ID, attempt: newest.Attempt + 1,
	}
	switch {
	case readySandboxes(observed) > 1:
		replace.message = "Pod has more than one ready sandbox"
	case newest.State != SandboxReady:
		replace.message = "Pod sandbox is not ready"
	case !unconfirmed && networkOf(newest) != networkFor(pod):
		replace.message = messageNetworkChanged
		replace.changed = true
		replace.id = ""
	case !pod.Spec.HostNetwork && newest.Network != nil && newest.Network.IP == "":
		replace.message = "Pod sandbox has no IP address"
	case redefined:
		replace.message = messagePodChanged
		replace.changed = true
	default:
		return sandboxVerdict{id: newest.ID, attempt: newest.Attempt}
	}
	return replace
}

// cgroupMissing is the one place that decides about PodCgroupMissing: a sandbox that
// would be kept is replaced. The kubelet kills, and finds the sandbox changed in its
// next sync; it kills only where a main container runs, because before there is one the
// cgroup may not have been made. (kubelet kubelet.go:SyncPod)
func (p *planner) cgroupMissing(change sandboxVerdict) sandboxVerdict {
	if change.needed || !p.OutsideCgroup || !p.anyMainContainerRuns() {
		return change
	}
	return sandboxVerdict{
		needed: true, trigger: v1alpha1.TriggerPodCgroupMissing, id: change.id, attempt: change.attempt + 1,
		message: "Pod cgroup is missing, and the containers run outside of it",
	}
}

func (p *planner) anyMainContainerRuns() bool {
	for i := range p.Pod.Spec.Containers {
		if s := p.Observed.Current(p.Pod.Spec.Containers[i].Name); s != nil && s.State == ContainerRunning {
			return true
		}
	}
	return false
}

func readySandboxes(observed *PodStatus) int {
	n := 0
	for i := range observed.Sandboxes {
		if observed.Sandboxes[i].State == SandboxReady {
			n++
		}
	}
	return n
}

// networkOf returns the network mode of a sandbox; one that does not say is on
// a pod network.
func networkOf(s *SandboxStatus) string {
	if s.NetworkNamespace == "" {
		return NetworkPod
	}
	return s.NetworkNamespace
}

func networkFor(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return NetworkNode
	}
	return NetworkPod
}

func (p *planner) killPodForSandbox(change sandboxVerdict) {
	p.actions.KillPod = true
	p.actions.CreateSandbox = true
	p.actions.Trigger = change.trigger
	p.actions.Message = change.message
	p.actions.Redefined = change.changed
}

// startOver plans what a new sandbox begins with: the first init container, or
// the main containers. It is not created when nothing would be started in it.
func (p *planner) startOver(change sandboxVerdict) {
	toStart := p.startedAnew(change)
	first := p.initAfter(0)
	switch {
	case len(toStart) == 0 && (p.staysDown(change) || p.stopsAny()):
		p.actions.CreateSandbox = false
	case len(toStart) == 0 && p.anyMainContainerCreated():
		p.actions.CreateSandbox = false
		p.finish("no container is left to start")
	case first < len(p.Pod.Spec.InitContainers):
		p.startInit(first)
	default:
		p.actions.ContainersToStart = toStart
	}
}

// staysDown is whether a pod that is never restarted has had its sandbox, so that nothing is
// left to start. A changed definition restarts whatever the policy, as that of a container does.
func (p *planner) staysDown(change sandboxVerdict) bool {
	return p.Pod.Spec.RestartPolicy == corev1.RestartPolicyNever &&
		change.attempt != 0 && len(p.Observed.Containers) != 0 && !change.redefined
}

// staysStopped is whether there is nothing to do about a sandbox, because requests keep all
// stopped that would be started in another one, and nothing runs.
func (p *planner) staysStopped(change sandboxVerdict) bool {
	if !p.stopsAny() || len(p.startedAnew(change)) > 0 || p.anyMayRunOrUnknown() {
		return false
	}
	p.actions = Actions{SandboxID: p.actions.SandboxID}
	return true
}

func (p *planner) anyMayRunOrUnknown() bool {
	return slices.ContainsFunc(p.Observed.Containers, func(s ContainerStatus) bool {
		return s.State == ContainerRunning || s.State == ContainerUnknown
	})
}

// startedAnew returns the main containers that a new sandbox starts: those whose policy
// says so, and those whose start is due, but none that requests keep stopped.
func (p *planner) startedAnew(change sandboxVerdict) []int {
	var toStart []int
	down := p.staysDown(change)
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		s := p.last(c.Name)
		starts := !down && (!runsOnce(p.Pod, c) || !succeeded(s))
		if p.Differences.NextSandbox {
			starts = p.startsInNext(c, s, change.redefined || change.changed)
		}
		if !p.stops(c.Name) && (starts || p.owes(c.Name)) {
			toStart = append(toStart, i)
		}
	}
	return toStart
}

// runsOnce is whether a container stays away after it succeeded, by its own
// policy, else the pod's. Under Never a new sandbox starts it again.
func runsOnce(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyOnFailure
	}
	return pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

func succeeded(s *ContainerStatus) bool {
	return s != nil && s.State == ContainerExited && s.ExitCode == 0
}

// anyMainContainerCreated is whether the pod has been initialized once.
// (kubelet kuberuntime_container.go:HasAnyRegularContainerCreated)
func (p *planner) anyMainContainerCreated() bool {
	for i := range p.Pod.Spec.Containers {
		s := p.last(p.Pod.Spec.Containers[i].Name)
		if s != nil && (s.State == ContainerCreated || s.State == ContainerRunning || s.State == ContainerExited) {
			return true
		}
	}
	return false
}
