// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// maxIPs is the API's bound on the addresses of a pod and of a node.
const maxIPs = 16

// NodeWorkloadInput is what the status of a NodeWorkload is made of.
type NodeWorkloadInput struct {
	// Previous is the status the object has now; its conditions that are not the
	// shim's (ShimResponding) are carried over, and times of conditions that do
	// not change are kept. Nil if there is none.
	Previous *v1alpha1.NodeWorkloadStatus
	// Generation is the generation of the spec that the status is about.
	Generation int64
	// TemplateHash identifies the template that runs.
	TemplateHash string
	// Pod is the desired pod that Status was computed for.
	Pod *corev1.Pod
	// Status is the computed status of the pod.
	Status corev1.PodStatus
	// Conditions are the shim's own beside those of the pod (TemplateAccepted,
	// KillFailing, RuntimeUsable), all of them: one that is missing is removed.
	// Their times and generations are set here.
	Conditions []metav1.Condition
	// Kills are the kill records (AddKill), newest first.
	Kills []v1alpha1.KillRecord
	// KillCount is the number of kills that have begun since the object exists.
	KillCount int64
	// OOMKilled: the kernel has just killed for memory in the pod's cgroup. An exit by
	// SIGKILL without a request is an OOM kill then, if it is the only one.
	OOMKilled bool
	// ContainersMayRun holds a terminal phase back until the containers are
	// gone, as the kubelet does for the API. (status_manager.go:mergePodStatus)
	ContainersMayRun bool
	// Now is the time of conditions that change.
	Now time.Time
}

// NodeWorkload returns the status of a NodeWorkload: what the pod's status says,
// what kubectl would print about it, and the kills. Texts and lists are cut to
// the bounds of the API. Nothing in it is shared with the input.
func NodeWorkload(in NodeWorkloadInput) v1alpha1.NodeWorkloadStatus {
	previous := in.Previous
	if previous == nil {
		previous = &v1alpha1.NodeWorkloadStatus{}
	}
	st := in.Status.DeepCopy()
	if in.ContainersMayRun {
		holdPhase(st, previous)
	}
	summary := Summarize(in.Pod, st)
	return v1alpha1.NodeWorkloadStatus{
		ObservedGeneration:    in.Generation,
		TemplateHash:          truncateRunes(in.TemplateHash, 64),
		Phase:                 st.Phase,
		Reason:                shown(st.Reason, 256),
		Message:               shown(st.Message, 4096),
		Summary:               shown(oneLine(withWait(summary.Status, in.Conditions)), 256),
		Ready:                 summary.Ready,
		Restarts:              summary.Restarts,
		PodIPs:                podIPStrings(st.PodIPs),
		HostIPs:               hostIPStrings(st.HostIPs),
		QOSClass:              st.QOSClass,
		StartTime:             st.StartTime,
		Conditions:            nodeWorkloadConditions(in, st, previous.Conditions),
		InitContainerStatuses: st.InitContainerStatuses,
		ContainerStatuses:     st.ContainerStatuses,
		Kills:                 boundedKills(in.Kills),
		KillCount:             in.KillCount,
		Requests:              previous.Requests,
		LastExit:              lastExit(st, previous, in.Kills, in.OOMKilled),
	}
}

// Waiting is between a summary and the reason why a change waits.
const Waiting = ", waiting: "

// withWait adds to a summary why a change waits, unless that is what it says.
func withWait(summary string, conditions []metav1.Condition) string {
	i := conditionIndex(conditions, v1alpha1.ConditionUpdateWaiting)
	if i < 0 || strings.Contains(summary, conditions[i].Reason) {
		return summary
	}
	return summary + Waiting + conditions[i].Reason
}

// UpdateWaits says in a status that a change waits of which the workload's worker does not know, why, and since when.
func UpdateWaits(st *v1alpha1.NodeWorkloadStatus, reason, message string, since metav1.Time) {
	st.Conditions = append(st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionTrue, ObservedGeneration: st.ObservedGeneration,
		Reason: reason, Message: shown(message, 32768), LastTransitionTime: since,
	})
	st.Summary = shown(oneLine(withWait(st.Summary, st.Conditions)), 256)
}

// holdPhase keeps the phase that was reported before in the place of a terminal
// one.
func holdPhase(st *corev1.PodStatus, previous *v1alpha1.NodeWorkloadStatus) {
	if !plan.Ended(st.Phase) || plan.Ended(previous.Phase) {
		return
	}
	st.Phase, st.Reason, st.Message = previous.Phase, previous.Reason, previous.Message
	if st.Phase == "" {
		st.Phase = corev1.PodPending
	}
}

// boundedKills returns copies of the records the API has room for.
func boundedKills(kills []v1alpha1.KillRecord) []v1alpha1.KillRecord {
	if len(kills) == 0 {
		return nil
	}
	kills = kills[:min(len(kills), maxKills)]
	bounded := make([]v1alpha1.KillRecord, 0, len(kills))
	for i := range kills {
		bounded = append(bounded, boundKill(kills[i]))
	}
	return bounded
}

func podIPStrings(ips []corev1.PodIP) []string {
	var list []string
	for _, ip := range ips[:min(len(ips), maxIPs)] {
		list = append(list, ip.IP)
	}
	return list
}

func hostIPStrings(ips []corev1.HostIP) []string {
	var list []string
	for _, ip := range ips[:min(len(ips), maxIPs)] {
		list = append(list, ip.IP)
	}
	return list
}

// PodStatus returns the pod status that a NodeWorkload's status was made of, as
// Input.Previous for a shim that has just started. Nothing in it is shared with
// the given status.
func PodStatus(st *v1alpha1.NodeWorkloadStatus) corev1.PodStatus {
	st = st.DeepCopy()
	status := corev1.PodStatus{
		Phase:                 st.Phase,
		Reason:                st.Reason,
		Message:               st.Message,
		QOSClass:              st.QOSClass,
		StartTime:             st.StartTime,
		Conditions:            podConditions(st.Conditions),
		InitContainerStatuses: st.InitContainerStatuses,
		ContainerStatuses:     st.ContainerStatuses,
	}
	for _, ip := range st.PodIPs {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
	}
	for _, ip := range st.HostIPs {
		status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(st.PodIPs) > 0 {
		status.PodIP = st.PodIPs[0]
	}
	if len(st.HostIPs) > 0 {
		status.HostIP = st.HostIPs[0]
	}
	return status
}
