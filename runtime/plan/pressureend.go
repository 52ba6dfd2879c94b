// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Words of the kubelet about a node that is short of something. (kubelet eviction/helpers.go)
const (
	lowPrefix        = "The node was low on resource: "
	lowMessage       = lowPrefix + "%v. "
	lowByMessage     = "Threshold quantity: %v, available: %v. "
	containerOver    = "Container %s was using %s, request is %s, has larger consumption of %v. "
	podOver          = "Pod %s was using %s, request is %s, has larger consumption of %v. "
	nodeHadCondition = "The node had condition: %v. "
)

// Keys of the annotations of the event about an eviction. (kubelet eviction/helpers.go)
const (
	offendingContainers      = "offending_containers"
	offendingContainersUsage = "offending_containers_usage"
	offendingPod             = "offending_pod"
	offendingPodUsage        = "offending_pod_usage"
	starvedResource          = "starved_resource"
)

// PressureEviction is what the end of a pod for the node's sake depends on.
type PressureEviction struct {
	Candidate Candidate
	// Threshold is what is reclaimed for, and Observed what was observed.
	Threshold Threshold
	Observed  Observations
	// MaxGraceSeconds is the longest grace period for soft thresholds; negative is no bound.
	MaxGraceSeconds int64
}

// DecidePressureEviction is the one place that decides about NodePressure: it returns the end of
// a pod that is to free what its node is short of, nil for one that is never ended for that.
// (kubelet eviction_manager.go:synchronize, evictPod)
func DecidePressureEviction(e PressureEviction) *Termination {
	if e.Candidate.Pod == nil || critical(e.Candidate.Pod) {
		return nil
	}
	message, annotations := e.message()
	t := pressureTermination(message)
	t.Override, t.EventAnnotations = e.override(), annotations
	return t
}

// pressureTermination is the end of a pod for the node's sake, with the pod's own grace period.
func pressureTermination(message string) *Termination {
	return &Termination{
		Trigger: v1alpha1.TriggerNodePressure, Reason: ReasonEvicted, Message: message, RequestedBy: requestedByPressure,
		Condition: &corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
		},
	}
}

// override is the grace period: next to none where a hard threshold is met, else the smaller of
// the node's and the pod's; nil is the pod's.
func (e *PressureEviction) override() *int64 {
	pods := e.Candidate.Pod.Spec.TerminationGracePeriodSeconds
	switch {
	case e.Threshold.hard():
		return new(int64(evictionGracePeriod))
	case e.MaxGraceSeconds < 0:
		return nil
	case pods != nil:
		return new(min(e.MaxGraceSeconds, *pods))
	}
	return new(e.MaxGraceSeconds)
}

// KillPatience is how long a caller waits for the kills of an end: half as long again as the grace
// period, at least 10 s. (kubelet pod_workers.go:killPodNow)
func KillPatience(pod *corev1.Pod, end *Termination) time.Duration {
	const least = 10 * time.Second
	grace := end.Override
	if grace == nil {
		grace = pod.Spec.TerminationGracePeriodSeconds
	}
	if grace == nil {
		return least
	}
	return max(least, time.Duration(*grace)*time.Second*3/2)
}

// message says what the node is short of and who uses more of it than was requested, for people
// and for programs. (kubelet eviction/helpers.go:evictionMessage)
func (e *PressureEviction) message() (string, map[string]string) {
	name, pod, use := e.Threshold.Signal.Resource(), e.Candidate.Pod, e.Candidate.Use
	annotations := map[string]string{}
	var text strings.Builder
	fmt.Fprintf(&text, lowMessage, name)
	if want, has, found := e.Observed.closest(&e.Threshold, false); found {
		fmt.Fprintf(&text, lowByMessage, want.String(), has.Available)
	}
	if use == nil {
		return text.String(), nil
	}
	if name == corev1.ResourceMemory && podresources.IsPodLevelResourcesSet(pod) && use.Memory != nil {
		if request, ok := pod.Spec.Resources.Requests[name]; ok {
			used := resource.NewQuantity(*use.Memory, resource.BinarySI).String()
			fmt.Fprintf(&text, podOver, pod.Name, used, request.String(), name)
			annotations[offendingPod], annotations[offendingPodUsage] = pod.Name, used
		}
	}
	var over, usage []string
	for i := range use.Containers {
		c := &use.Containers[i]
		spec := podspec.Container(pod, c.Name)
		used := c.of(name)
		if spec == nil || used == nil {
			continue
		}
		if request := spec.Resources.Requests[name]; used.Cmp(request) > 0 {
			fmt.Fprintf(&text, containerOver, c.Name, used.String(), request.String(), name)
			over, usage = append(over, c.Name), append(usage, used.String())
		}
	}
	annotations[offendingContainers], annotations[offendingContainersUsage] = strings.Join(over, ","), strings.Join(usage, ",")
	annotations[starvedResource] = string(name)
	return text.String(), annotations
}

// of is what a container uses of what requests are made for; nil if that is not known.
func (c *ContainerUse) of(name corev1.ResourceName) *resource.Quantity {
	switch {
	case name == corev1.ResourceMemory && c.Memory != nil:
		return resource.NewQuantity(*c.Memory, resource.BinarySI)
	case name == corev1.ResourceEphemeralStorage && c.RootFs.Bytes != nil && c.Logs.Bytes != nil:
		return resource.NewQuantity(*c.RootFs.Bytes+*c.Logs.Bytes, resource.BinarySI)
	}
	return nil
}

// taintMemoryPressure is the taint that a pod tolerates which may start although the node is
// short of memory.
var taintMemoryPressure = corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}

// AdmitUnderPressure says why nothing of a pod that never ran is started while the node has
// these conditions; nil if it is. (kubelet eviction_manager.go:Admit)
func AdmitUnderPressure(pod *corev1.Pod, conditions []corev1.NodeConditionType) *Refusal {
	if len(conditions) == 0 || critical(pod) {
		return nil
	}
	if len(conditions) == 1 && conditions[0] == corev1.NodeMemoryPressure &&
		(podspec.QOSClass(pod) != corev1.PodQOSBestEffort || slices.ContainsFunc(pod.Spec.Tolerations, toleratesMemoryPressure)) {
		return nil
	}
	return &Refusal{Reason: ReasonEvicted, Message: fmt.Sprintf(nodeHadCondition, conditions)}
}

// toleratesMemoryPressure reports whether a toleration is one of the taint.
func toleratesMemoryPressure(t corev1.Toleration) bool {
	switch {
	case t.Effect != "" && t.Effect != taintMemoryPressure.Effect, t.Key != "" && t.Key != taintMemoryPressure.Key:
		return false
	case t.Operator == corev1.TolerationOpExists:
		return true
	}
	return (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taintMemoryPressure.Value
}
