// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/preview"
)

// Kill is a kill that would happen, in the words of its record.
type Kill struct {
	Container string               `json:"container"`
	Trigger   v1alpha1.KillTrigger `json:"trigger"`
	Message   string               `json:"message"`
	// Changed are the fields of the template that lead to it.
	Changed []string `json:"changed,omitempty"`
	// GraceSeconds is the grace period, GraceSource where it comes from.
	GraceSeconds int64                `json:"graceSeconds"`
	GraceSource  v1alpha1.GraceSource `json:"graceSource"`
	// PreStop is the kind of the hook that runs.
	PreStop string `json:"preStop,omitempty"`
}

// killsOfChange are the kills when a node that runs one template gets another.
func (f *forecaster) killsOfChange(nw *v1alpha1.NodeWorkload, before, after *corev1.PodTemplateSpec) []Kill {
	was, becomes := f.pod(nw, before), f.pod(nw, after)
	return killsOf(preview.Compute(preview.Input{
		Pod: becomes, Before: was, Observed: observed(nw, was), Status: &nw.Status, Source: preview.SourceAssumed, Now: f.Now,
	}))
}

// killsOfEnd are the kills when a workload ends on a node.
func (f *forecaster) killsOfEnd(nw *v1alpha1.NodeWorkload, running *corev1.PodTemplateSpec, reason string) []Kill {
	pod := f.pod(nw, running)
	return killsOf(preview.Compute(preview.Input{
		Pod: pod, Observed: observed(nw, pod), Status: &nw.Status, Misplaced: reason, Source: preview.SourceAssumed, Now: f.Now,
	}))
}

// pod is the Pod of a NodeWorkload with a template.
func (f *forecaster) pod(nw *v1alpha1.NodeWorkload, t *corev1.PodTemplateSpec) *corev1.Pod {
	return template.Pod(&template.Workload{NodeWorkload: *nw, Template: t})
}

// observed is what runs: all that the template says, but what the last status reports as
// ended or waiting.
func observed(nw *v1alpha1.NodeWorkload, pod *corev1.Pod) *plan.PodStatus {
	if plan.Ended(nw.Status.Phase) {
		return &plan.PodStatus{}
	}
	status := preview.Running(pod)
	for _, reported := range slices.Concat(nw.Status.InitContainerStatuses, nw.Status.ContainerStatuses) {
		if reported.State.Running != nil {
			continue
		}
		for i := range status.Containers {
			if c := &status.Containers[i]; c.Name == reported.Name && c.State == plan.ContainerRunning {
				c.State = plan.ContainerExited
				if t := reported.LastTerminationState.Terminated; t != nil {
					c.ExitCode = t.ExitCode
				}
				if t := reported.State.Terminated; t != nil {
					c.ExitCode = t.ExitCode
				}
			}
		}
	}
	return status
}

func killsOf(p preview.Preview) []Kill {
	kills := []Kill{}
	for _, step := range p.Kills() {
		kills = append(kills, Kill{
			Container: step.Container, Trigger: step.Trigger, Message: step.Message, Changed: step.Changed,
			GraceSeconds: step.Grace.Seconds, GraceSource: step.Grace.Source, PreStop: step.PreStop,
		})
	}
	return kills
}

// Key is the same for changes that do the same to their nodes.
func (c *NodeChange) Key() string { return fmt.Sprint(c.From, c.To, c.Reason, c.Kills) }
