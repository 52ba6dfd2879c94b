// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// runtimeName is the scheme of container IDs.
const runtimeName = "containerd"

// report is the status that a shim would report.
func (s *Share) report(nw *v1alpha1.NodeWorkload, now time.Time) v1alpha1.NodeWorkloadStatus {
	pod := template.Pod(template.Of(nw))
	observed := s.observed(pod)
	readiness := plan.ProbeSuccess
	if s.stage != stageRunning && s.stage != stagePulling || s.failing {
		readiness = plan.ProbeFailure
	}
	in := status.Input{
		Pod: pod, Observed: observed, Now: now, HostIPs: []string{"192.0.2.1"}, RuntimeName: runtimeName,
		Probes: map[string]plan.ProbeResults{s.containerID(): {Readiness: readiness}},
	}
	if s.last != nil {
		previous := status.PodStatus(s.last)
		in.Previous = &previous
	}
	return status.NodeWorkload(status.NodeWorkloadInput{
		Previous: withoutWaiting(s.last), Generation: nw.Generation, TemplateHash: s.hash, Pod: pod, Status: status.Compute(in),
		Conditions: s.conditions(nw), Kills: s.kills, KillCount: s.killCount, ContainersMayRun: s.stage != stageEnded, Now: now,
	})
}

// observed is what a runtime would show.
func (s *Share) observed(pod *corev1.Pod) *plan.PodStatus {
	p := &plan.PodStatus{ID: string(pod.UID), Name: pod.Name, Namespace: pod.Namespace}
	if s.stage == stageCreating || s.stage == stageEnded {
		return p
	}
	p.IPs = []string{"10.88.0.7"}
	p.Sandboxes = []plan.SandboxStatus{{
		ID: "sandbox", State: plan.SandboxReady, NetworkNamespace: "POD", Network: &plan.SandboxNetwork{IP: p.IPs[0]}, CreatedAt: s.startedAt,
	}}
	p.Containers = []plan.ContainerStatus{{
		ID: s.containerID(), Name: "app", SandboxID: "sandbox", State: plan.ContainerRunning, CreatedAt: s.startedAt, StartedAt: s.startedAt,
		Image: s.image, ImageRef: "sha256:" + s.containerID(), RestartCount: s.restarts,
	}}
	p.ActiveContainerIDs = []string{s.containerID()}
	return p
}

// conditions are the shim's own.
func (s *Share) conditions(nw *v1alpha1.NodeWorkload) []metav1.Condition {
	list := []metav1.Condition{
		{Type: v1alpha1.ConditionTemplateAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted},
		{Type: v1alpha1.ConditionRuntimeUsable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRuntimeReady},
	}
	if s.stage == stagePulling {
		image, reason := nw.Spec.Template.Spec.Containers[0].Image, "Pulling"
		if image == BadImage {
			reason = "ImagePullBackOff"
		}
		list = append(list, metav1.Condition{
			Type: v1alpha1.ConditionUpdateWaiting, Status: metav1.ConditionTrue, Reason: reason, Message: "app waits for image " + image,
		})
	}
	return list
}

// withoutWaiting leaves out the condition that would be kept as one of another's.
func withoutWaiting(st *v1alpha1.NodeWorkloadStatus) *v1alpha1.NodeWorkloadStatus {
	if st == nil {
		return nil
	}
	kept := st.DeepCopy()
	meta.RemoveStatusCondition(&kept.Conditions, v1alpha1.ConditionUpdateWaiting)
	return kept
}
