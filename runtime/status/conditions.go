// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Reasons of a pod's conditions. (kubelet status/generate.go)
const (
	reasonPodCompleted                = "PodCompleted"
	reasonPodFailed                   = "PodFailed"
	reasonContainersNotReady          = "ContainersNotReady"
	reasonContainersNotInitialized    = "ContainersNotInitialized"
	reasonReadinessGatesNotReady      = "ReadinessGatesNotReady"
	reasonRestartAllContainersStarted = "RestartAllContainersStarted"
)

// ownConditions are the conditions that Compute sets; others are carried over.
var ownConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
	corev1.PodScheduled, corev1.AllContainersRestarting, corev1.PodResizeInProgress, corev1.PodResizePending,
	v1alpha1.ConditionForeignContainers, v1alpha1.ConditionVolumeSizePending, v1alpha1.ConditionVolumesOutdated,
	v1alpha1.ConditionPodCgroupMissing,
}

// conditions returns the conditions of a pod, in the kubelet's order, without
// times. (kubelet kubelet_pods.go:generateAPIPodStatus)
func (c *conversion) conditions(st, old *corev1.PodStatus) []corev1.PodCondition {
	var conditions []corev1.PodCondition
	for _, condition := range old.Conditions {
		if !slices.Contains(ownConditions, condition.Type) {
			conditions = append(conditions, condition)
		}
	}
	pod := c.in.Pod
	statuses := slices.Concat(st.InitContainerStatuses, st.ContainerStatuses)
	containersReady := containersReadyCondition(&pod.Spec, statuses, st.Phase)
	conditions = append(conditions,
		corev1.PodCondition{
			Type:   corev1.PodReadyToStartContainers,
			Status: conditionStatus(sandboxUsable(pod, c.observed)),
		},
		initializedCondition(&pod.Spec, statuses, st.Phase, old.Conditions),
		c.unready(readyCondition(&pod.Spec, conditions, containersReady)),
		containersReady,
		corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	)
	if plan.AllContainersCouldRestart(pod) {
		conditions = append(conditions, c.allContainersRestartingCondition(st.Phase))
	}
	if resizing := c.in.Resizing; resizing != nil {
		conditions = append(conditions, corev1.PodCondition{
			Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: resizing.Reason, Message: resizing.Message,
		})
	}
	if foreign := c.foreign(); len(foreign) > 0 {
		conditions = append(conditions, foreignCondition(foreign))
	}
	if ending := c.in.Ending; ending != nil && ending.Condition != nil {
		conditions = slices.DeleteFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == ending.Condition.Type })
		conditions = append(conditions, *ending.Condition)
	}
	conditions = append(conditions, c.in.Conditions...)
	for i := range conditions {
		if slices.Contains(ownConditions, conditions[i].Type) {
			conditions[i].ObservedGeneration = pod.Generation
		}
	}
	return conditions
}

// foreign names the containers that this shim does not manage in the pod's sandboxes: those without our
// labels, and those that only bear them.
func (c *conversion) foreign() []string {
	var names []string
	for _, f := range c.observed.Foreign {
		names = append(names, fmt.Sprintf("%s (%s)", f.Name, f.ID))
	}
	for i := range c.observed.Containers {
		s := &c.observed.Containers[i]
		runs := s.State == plan.ContainerRunning || s.State == plan.ContainerUnknown
		if runs && plan.Foreign(c.in.Pod, s) {
			names = append(names, fmt.Sprintf("%s (%s)", s.Name, s.ID))
		}
	}
	return names
}

func foreignCondition(names []string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: v1alpha1.ConditionForeignContainers, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonForeignContainers,
		Message: "containers that the shim did not create run in the sandbox, and end with it: " + strings.Join(names, ", "),
	}
}

// containersReadyCondition is True when sidecars and main containers are ready.
// (kubelet status/generate.go:GenerateContainersReadyCondition)
func containersReadyCondition(spec *corev1.PodSpec, statuses []corev1.ContainerStatus, podPhase corev1.PodPhase) corev1.PodCondition {
	condition := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	var unknown, unready []string
	for _, name := range readyNames(spec) {
		switch status := statusByName(statuses, name); {
		case status == nil:
			unknown = append(unknown, name)
		case !status.Ready:
			unready = append(unready, name)
		}
	}
	switch {
	case podPhase == corev1.PodSucceeded && len(unknown) == 0:
		condition.Reason = reasonPodCompleted
	case podPhase == corev1.PodFailed:
		// Containers may still be on their way out.
		condition.Reason = reasonPodFailed
	case len(unknown)+len(unready) > 0:
		condition.Reason = reasonContainersNotReady
		condition.Message = named("unknown", unknown, "unready", unready)
	default:
		condition.Status = corev1.ConditionTrue
	}
	return condition
}

// readyNames returns the containers whose readiness counts: sidecars, then main
// containers.
func readyNames(spec *corev1.PodSpec) []string {
	var names []string
	for i := range spec.InitContainers {
		if podspec.IsSidecar(&spec.InitContainers[i]) {
			names = append(names, spec.InitContainers[i].Name)
		}
	}
	for i := range spec.Containers {
		names = append(names, spec.Containers[i].Name)
	}
	return names
}

// readyCondition is True when the containers are ready and every readiness gate
// is True. (kubelet status/generate.go:GeneratePodReadyCondition)
func readyCondition(spec *corev1.PodSpec, conditions []corev1.PodCondition, containersReady corev1.PodCondition) corev1.PodCondition {
	condition := containersReady
	condition.Type = corev1.PodReady
	if containersReady.Status != corev1.ConditionTrue {
		return condition
	}
	var messages []string
	for _, gate := range spec.ReadinessGates {
		switch c := conditionByType(conditions, gate.ConditionType); {
		case c == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(messages) > 0 {
		condition.Status = corev1.ConditionFalse
		condition.Reason = reasonReadinessGatesNotReady
		condition.Message = strings.Join(messages, ", ")
	}
	return condition
}

// unready turns the condition Ready that is True to False where something asks for that.
func (c *conversion) unready(ready corev1.PodCondition) corev1.PodCondition {
	if c.in.Unready != nil && ready.Status == corev1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, c.in.Unready.Reason, c.in.Unready.Message
	}
	return ready
}

// initializedCondition is True when init containers have succeeded and sidecars
// have started, and stays True once a main container has started.
// (kubelet status/generate.go:GeneratePodInitializedCondition)
func initializedCondition(spec *corev1.PodSpec, statuses []corev1.ContainerStatus, podPhase corev1.PodPhase, old []corev1.PodCondition) corev1.PodCondition {
	condition := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var unknown, incomplete []string
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		switch status := statusByName(statuses, container.Name); {
		case status == nil:
			unknown = append(unknown, container.Name)
		case !isInitialized(container, status):
			incomplete = append(incomplete, container.Name)
		}
	}
	switch {
	case podPhase == corev1.PodSucceeded && len(unknown) == 0:
		condition.Reason = reasonPodCompleted
	case anyMainContainerStarted(spec, statuses):
	case len(unknown)+len(incomplete) == 0:
	case isTrue(old, corev1.PodInitialized):
		// All containers are restarted: a pod that was initialized stays so.
	default:
		condition.Status = corev1.ConditionFalse
		condition.Reason = reasonContainersNotInitialized
		condition.Message = named("unknown", unknown, "incomplete", incomplete)
	}
	return condition
}

func isInitialized(container *corev1.Container, status *corev1.ContainerStatus) bool {
	if podspec.IsSidecar(container) {
		return held(status) || status.Started != nil && *status.Started
	}
	return status.Ready
}

// anyMainContainerStarted is whether a main container runs or has ended.
// (kubelet container/helpers.go:HasAnyRegularContainerStarted)
func anyMainContainerStarted(spec *corev1.PodSpec, statuses []corev1.ContainerStatus) bool {
	return slices.ContainsFunc(statuses, func(status corev1.ContainerStatus) bool {
		return (status.State.Running != nil || status.State.Terminated != nil) && isMain(spec, status.Name)
	})
}

// allContainersRestartingCondition is True from the exit that asked for it until
// all containers are removed.
// (kubelet status/generate.go:GenerateAllContainersRestartingCondition)
func (c *conversion) allContainersRestartingCondition(podPhase corev1.PodPhase) corev1.PodCondition {
	condition := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
	switch {
	case podPhase == corev1.PodSucceeded:
		condition.Reason = reasonPodCompleted
	case podPhase == corev1.PodFailed:
		condition.Reason = reasonPodFailed
	case c.restartingAll && !plan.AllContainersRestartCleanedUp(c.in.Pod, c.observed):
		condition.Status = corev1.ConditionTrue
		condition.Reason = reasonRestartAllContainersStarted
		condition.Message = "container exited with restart policy rule"
	}
	return condition
}

// named writes which containers are in which status, as the kubelet does.
func named(first string, firstNames []string, second string, secondNames []string) string {
	var parts []string
	if len(firstNames) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %s", first, firstNames))
	}
	if len(secondNames) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %s", second, secondNames))
	}
	return strings.Join(parts, ", ")
}

func conditionByType(conditions []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}

func isTrue(conditions []corev1.PodCondition, t corev1.PodConditionType) bool {
	condition := conditionByType(conditions, t)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

func conditionStatus(value bool) corev1.ConditionStatus {
	if value {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// sandboxUsable is whether containers can be started: the newest sandbox is
// the only ready one and has the network that the pod asks for.
// (kubelet status/generate.go:GeneratePodReadyToStartContainersCondition)
func sandboxUsable(pod *corev1.Pod, observed *plan.PodStatus) bool {
	if len(observed.Sandboxes) == 0 || slices.ContainsFunc(observed.Sandboxes[1:], isReadySandbox) {
		return false
	}
	newest := observed.Sandboxes[0]
	if !isReadySandbox(newest) {
		return false
	}
	if pod.Spec.HostNetwork {
		return newest.NetworkNamespace == plan.NetworkNode
	}
	onPodNetwork := newest.NetworkNamespace == plan.NetworkPod || newest.NetworkNamespace == ""
	return onPodNetwork && (newest.Network == nil || newest.Network.IP != "")
}
