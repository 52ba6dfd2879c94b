// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// given is what containers were given since their creation. It is not changed.
func (w *worker) given() map[string]plan.Resources {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.Actuated
}

// actuated returns what is given, for a sync to work on.
func (w *worker) actuated() map[string]plan.Resources {
	given := maps.Clone(w.given())
	if given == nil {
		given = map[string]plan.Resources{}
	}
	return given
}

// keepActuated keeps what a sync has left, but for containers that do not run.
func (w *worker) keepActuated(given map[string]plan.Resources, observed *plan.PodStatus) {
	maps.DeleteFunc(given, func(id string, _ plan.Resources) bool {
		return !slices.ContainsFunc(observed.Containers, func(c plan.ContainerStatus) bool {
			return c.ID == id && c.State == plan.ContainerRunning
		})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = w.dirty || !maps.Equal(given, w.rec.Actuated)
	w.rec.Actuated = given
}

// input is what the plan decides on.
func (w *worker) input(d desired, observed *plan.PodStatus) plan.Input {
	if w.current != d.pod {
		w.current, w.definitions = d.pod, plan.Define(d.pod)
	}
	return plan.Input{
		Pod:         d.pod,
		Observed:    observed,
		Probes:      w.cfg.Prober.Results(w.id.UID),
		Definitions: w.definitions,
		Actuated:    w.given(),
	}
}

// Words of the kubelet about resizes. (kubelet events/event.go, events/resize.go)
const (
	resizeStartedReason    = "ResizeStarted"
	resizeStartedMessage   = "Pod resize started"
	resizeCompletedReason  = "ResizeCompleted"
	resizeCompletedMessage = "Pod resize completed"
	resizeErrorReason      = "ResizeError"
	resizeErrorMessage     = "Pod resize error"
)

// resizing tells why resources are on their way to what the template says, nil if
// they are there, and writes the events about that. (kubelet kubelet.go:SyncPod)
func (w *worker) resizing(d desired, observed *plan.PodStatus) *status.Reason {
	if w.state() != Syncing || d.pod == nil {
		w.resizeError, w.resizeGeneration = "", 0
		return nil
	}
	if !plan.ResizeInProgress(w.input(d, observed)) {
		if w.resizeGeneration != 0 {
			w.resizeEvent(d.pod, corev1.EventTypeNormal, resizeCompletedReason, resizeCompletedMessage)
		}
		w.resizeError, w.resizeGeneration = "", 0
		return nil
	}
	if w.resizeGeneration != d.pod.Generation {
		w.resizeError, w.resizeGeneration = "", d.pod.Generation
		w.resizeEvent(d.pod, corev1.EventTypeNormal, resizeStartedReason, resizeStartedMessage)
	}
	if w.resizeError != "" {
		return &status.Reason{Reason: corev1.PodReasonError, Message: w.resizeError}
	}
	return &status.Reason{}
}

// resizeFailed keeps why resources could not be changed in place; "" if they were.
func (w *worker) resizeFailed(pod *corev1.Pod, message string) {
	news := message != "" && message != w.resizeError
	w.resizeError = message
	if news {
		w.resizeEvent(pod, corev1.EventTypeWarning, resizeErrorReason, resizeErrorMessage)
	}
}

// resizeSummary is what the kubelet tells about a resize.
type resizeSummary struct {
	InitContainers []containerResources `json:"initContainers,omitempty"`
	Containers     []containerResources `json:"containers,omitempty"`
	Generation     int64                `json:"generation"`
	Error          string               `json:"error,omitempty"`
}

type containerResources struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

func (w *worker) resizeEvent(pod *corev1.Pod, eventtype, reason, message string) {
	summary := resizeSummary{
		InitContainers: resourcesOf(pod.Spec.InitContainers),
		Containers:     resourcesOf(pod.Spec.Containers),
		Generation:     w.resizeGeneration,
		Error:          w.resizeError,
	}
	if data, err := json.Marshal(summary); err == nil {
		message += ": " + string(data)
	}
	w.cfg.Events.Event(pod, "", eventtype, reason, message)
}

func resourcesOf(containers []corev1.Container) []containerResources {
	var list []containerResources
	for i := range containers {
		list = append(list, containerResources{Name: containers[i].Name, Resources: containers[i].Resources})
	}
	return list
}
