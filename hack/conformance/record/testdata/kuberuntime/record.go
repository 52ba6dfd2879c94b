// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Added to the kubelet's package by an overlay, to reach what it does not export.

package kuberuntime

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
)

// RecordedActions are podActions in the format of the vectors.
type RecordedActions struct {
	KillPod                    bool                        `json:"killPod"`
	CreateSandbox              bool                        `json:"createSandbox"`
	SandboxID                  string                      `json:"sandboxID"`
	Attempt                    uint32                      `json:"attempt"`
	InitContainersToStart      []int                       `json:"initContainersToStart"`
	ContainersToStart          []int                       `json:"containersToStart"`
	EphemeralContainersToStart []int                       `json:"ephemeralContainersToStart"`
	ContainersToKill           []RecordedKill              `json:"containersToKill"`
	ContainersToReset          []RecordedReset             `json:"containersToReset"`
	ContainersToUpdate         map[string][]RecordedUpdate `json:"containersToUpdate,omitempty"`
	UpdatePodResources         bool                        `json:"updatePodResources"`
	UpdatePodLevelResources    bool                        `json:"updatePodLevelResources"`
}

// RecordedKill is a container to kill.
type RecordedKill struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	SpecName string `json:"specName"`
	Message  string `json:"message"`
	Reason   string `json:"reason"`
}

// RecordedReset is a container to remove.
type RecordedReset struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kill bool   `json:"kill"`
}

// RecordedUpdate is a container to resize in place.
type RecordedUpdate struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Desired RecordedResources `json:"desired"`
	Current RecordedResources `json:"current"`
}

// RecordedResources are resourceRequirements.
type RecordedResources struct {
	CPULimit      int64 `json:"cpuLimitMilli"`
	CPURequest    int64 `json:"cpuRequestMilli"`
	MemoryLimit   int64 `json:"memoryLimit"`
	MemoryRequest int64 `json:"memoryRequest"`
}

// RecordedState is what computePodActions reads beside its arguments.
type RecordedState struct {
	Liveness, Startup proberesults.Manager
	Actuated          state.State
}

// RecordComputePodActions calls computePodActions.
func RecordComputePodActions(ctx context.Context, s RecordedState, pod *v1.Pod, status *kubecontainer.PodStatus,
	restartAll bool) RecordedActions {
	m := &kubeGenericRuntimeManager{
		livenessManager: s.Liveness, startupManager: s.Startup, actuatedState: s.Actuated,
		internalLifecycle: cm.NewFakeInternalContainerLifecycle(),
	}
	return recordedActions(m.computePodActions(ctx, pod, status, restartAll))
}

func recordedActions(a podActions) RecordedActions {
	r := RecordedActions{
		KillPod: a.KillPod, CreateSandbox: a.CreateSandbox, SandboxID: a.SandboxID, Attempt: a.Attempt,
		InitContainersToStart:      append([]int{}, a.InitContainersToStart...),
		ContainersToStart:          append([]int{}, a.ContainersToStart...),
		EphemeralContainersToStart: append([]int{}, a.EphemeralContainersToStart...),
		ContainersToKill:           []RecordedKill{}, ContainersToReset: []RecordedReset{},
		UpdatePodResources: a.UpdatePodResources, UpdatePodLevelResources: a.UpdatePodLevelResources,
	}
	for id, k := range a.ContainersToKill {
		r.ContainersToKill = append(r.ContainersToKill, RecordedKill{
			ID: id.ID, Name: k.name, SpecName: k.container.Name, Message: k.message, Reason: string(k.reason),
		})
	}
	slices.SortFunc(r.ContainersToKill, func(a, b RecordedKill) int { return cmp.Compare(a.ID, b.ID) })
	for _, c := range a.ContainersToReset {
		r.ContainersToReset = append(r.ContainersToReset, RecordedReset{ID: c.containerID.ID, Name: c.container.Name, Kill: c.kill})
	}
	for name, updates := range a.ContainersToUpdate {
		for _, u := range updates {
			if r.ContainersToUpdate == nil {
				r.ContainersToUpdate = map[string][]RecordedUpdate{}
			}
			r.ContainersToUpdate[string(name)] = append(r.ContainersToUpdate[string(name)], RecordedUpdate{
				ID: u.kubeContainerID.ID, Name: u.container.Name,
				Desired: recordedResources(u.desiredContainerResources), Current: recordedResources(*u.currentContainerResources),
			})
		}
	}
	return r
}

func recordedResources(r resourceRequirements) RecordedResources {
	return RecordedResources{
		CPULimit: r.cpuLimit, CPURequest: r.cpuRequest, MemoryLimit: r.memoryLimit, MemoryRequest: r.memoryRequest,
	}
}

// RecordTerminationGracePeriod calls setTerminationGracePeriod.
func RecordTerminationGracePeriod(ctx context.Context, pod *v1.Pod, c *v1.Container, reason string) int64 {
	return setTerminationGracePeriod(ctx, pod, c, c.Name, kubecontainer.ContainerID{}, containerKillReason(reason))
}

// RecordDoBackOff calls doBackOff.
func RecordDoBackOff(ctx context.Context, events record.EventRecorderLogger, pod *v1.Pod, c *v1.Container,
	status *kubecontainer.PodStatus, backOff *flowcontrol.Backoff) (bool, string, error) {
	m := &kubeGenericRuntimeManager{recorder: events}
	return m.doBackOff(ctx, pod, c, status, backOff)
}

// RecordedManager reaches into a manager.
type RecordedManager struct{ *kubeGenericRuntimeManager }

// RecordManager prepares a manager that writes no files and whose hooks run
// through wrap.
func RecordManager(m KubeGenericRuntime, wrap func(kubecontainer.HandlerRunner) kubecontainer.HandlerRunner) RecordedManager {
	r := RecordedManager{m.(*kubeGenericRuntimeManager)}
	r.actuatedState = state.NewStateMemory(nil)
	r.runner = wrap(r.runner)
	return r
}

// KillContainer calls killContainer.
func (m RecordedManager) KillContainer(ctx context.Context, pod *v1.Pod, id kubecontainer.ContainerID, name, message, reason string,
	override *int64) error {
	return m.killContainer(ctx, pod, id, name, message, containerKillReason(reason), override, nil)
}

// KillPod calls killPodWithSyncResult.
func (m RecordedManager) KillPod(ctx context.Context, pod *v1.Pod, running kubecontainer.Pod, override *int64) kubecontainer.PodSyncResult {
	return m.killPodWithSyncResult(ctx, pod, running, override)
}

// KillContainers calls killContainersWithSyncResult.
func (m RecordedManager) KillContainers(ctx context.Context, pod *v1.Pod, running kubecontainer.Pod, override *int64) []*kubecontainer.SyncResult {
	return m.killContainersWithSyncResult(ctx, pod, running, override)
}

// Actions calls computePodActions.
func (m RecordedManager) Actions(ctx context.Context, pod *v1.Pod, status *kubecontainer.PodStatus, restartAll bool) RecordedActions {
	return recordedActions(m.computePodActions(ctx, pod, status, restartAll))
}

// Evict calls evictContainers and evictSandboxes.
func (m RecordedManager) Evict(ctx context.Context, policy kubecontainer.GCPolicy, ready, nonDeleted bool) (containers, sandboxes error) {
	return m.containerGC.evictContainers(ctx, policy, ready, nonDeleted), m.containerGC.evictSandboxes(ctx, nonDeleted)
}
