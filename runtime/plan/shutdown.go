// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Words of the kubelet's graceful node shutdown. (kubelet nodeshutdown/nodeshutdown_manager.go)
const (
	// ReasonTerminated is the reason of the status of a pod that a shutdown of its node ended.
	ReasonTerminated = v1alpha1.ReasonTerminated

	shutdownMessage       = "Pod was terminated in response to imminent node shutdown."
	shutdownRefusal       = "NodeShutdown"
	shutdownRefusalDetail = "Pod was rejected as the node is shutting down."
)

// Priorities of the classes that every cluster has. (kubernetes pkg/apis/scheduling)
const (
	clusterCriticalPriority = 2_000_000_000
	nodeCriticalPriority    = clusterCriticalPriority + 1000
)

// ShutdownPeriod is the time that a shutdown of the node leaves to the pods of a priority, and
// of those above it up to that of the next period.
type ShutdownPeriod struct {
	Priority int32
	Seconds  int64
}

// ShutdownPeriods are the periods of a whole time of which the last part is for critical pods.
// No time has none. (kubelet nodeshutdown_manager.go:migrateConfig)
func ShutdownPeriods(total, critical time.Duration) []ShutdownPeriod {
	if total == 0 {
		return nil
	}
	return []ShutdownPeriod{
		{Priority: 0, Seconds: int64((total - critical) / time.Second)},
		{Priority: clusterCriticalPriority, Seconds: int64(critical / time.Second)},
	}
}

// ShutdownTime is how long a shutdown takes at most.
func ShutdownTime(periods []ShutdownPeriod) time.Duration {
	var sum time.Duration
	for _, p := range periods {
		sum += time.Duration(p.Seconds) * time.Second
	}
	return sum
}

// ShutdownGroup are the pods that are ended together, and the time for that.
type ShutdownGroup struct {
	ShutdownPeriod
	Pods []*corev1.Pod
}

// ShutdownGroups puts pods into the groups of their priorities, the lowest first. A pod below
// all periods is in the lowest group. Groups without pods are left out.
// (kubelet nodeshutdown_manager.go:groupByPriority)
func ShutdownGroups(periods []ShutdownPeriod, pods []*corev1.Pod) []ShutdownGroup {
	if len(periods) == 0 {
		return nil
	}
	groups := make([]ShutdownGroup, 0, len(periods))
	for _, p := range periods {
		groups = append(groups, ShutdownGroup{ShutdownPeriod: p})
	}
	slices.SortStableFunc(groups, func(a, b ShutdownGroup) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, pod := range pods {
		at := 0
		for at+1 < len(groups) && groups[at+1].Priority <= priorityOf(pod) {
			at++
		}
		groups[at].Pods = append(groups[at].Pods, pod)
	}
	return slices.DeleteFunc(groups, func(g ShutdownGroup) bool { return len(g.Pods) == 0 })
}

// priorityOf is the priority of a pod. Where it is not known, that of the classes that every
// cluster has follows from their names.
func priorityOf(pod *corev1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case podspec.IsNodeCritical(pod):
		return nodeCriticalPriority
	case pod.Spec.PriorityClassName == podspec.ClusterCriticalClass:
		return clusterCriticalPriority
	}
	return 0
}

// DecideShutdown is the one place that decides about NodeShutdown: it returns the end of a pod
// of a group. Its own grace period counts where it is shorter than that of the group.
// (kubelet nodeshutdown_manager.go:killPods)
func DecideShutdown(pod *corev1.Pod, period ShutdownPeriod) Termination {
	override := period.Seconds
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		override = min(override, *own)
	}
	return Termination{
		Trigger: v1alpha1.TriggerNodeShutdown, Override: &override,
		Reason: ReasonTerminated, Message: shutdownMessage, RequestedBy: requestedByShutdown,
		Condition: &corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonTerminationByKubelet, Message: shutdownMessage,
		},
	}
}

// ShutDown returns the end of a pod that a shutdown of its node ended before, by its status:
// that says why, whatever its containers answer. It is nil for all others.
func ShutDown(previous *corev1.PodStatus) *Termination {
	if previous == nil || previous.Reason != ReasonTerminated || previous.Phase != corev1.PodFailed {
		return nil
	}
	ended := DecideShutdown(&corev1.Pod{}, ShutdownPeriod{})
	ended.Override, ended.Message = nil, previous.Message
	return &ended
}

// RefuseAtShutdown is why a node that shuts down admits no pod.
// (kubelet nodeshutdown_manager_linux.go:Admit)
func RefuseAtShutdown() *Refusal {
	return &Refusal{Reason: shutdownRefusal, Message: shutdownRefusalDetail}
}
