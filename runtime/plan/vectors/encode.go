// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"cmp"
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Actions are the actions of a plan in the format of the vectors. Every field is
// always present, and an empty list is [].
type Actions struct {
	KillPod                    bool    `json:"killPod"`
	CreateSandbox              bool    `json:"createSandbox"`
	SandboxID                  string  `json:"sandboxID"`
	Attempt                    uint32  `json:"attempt"`
	InitContainersToStart      []int   `json:"initContainersToStart"`
	ContainersToStart          []int   `json:"containersToStart"`
	EphemeralContainersToStart []int   `json:"ephemeralContainersToStart"`
	ContainersToKill           []Kill  `json:"containersToKill"`
	ContainersToReset          []Reset `json:"containersToReset"`
	UpdatePodResources         bool    `json:"updatePodResources"`
	UpdatePodLevelResources    bool    `json:"updatePodLevelResources"`
	// ContainersToUpdate is left out if there are none.
	ContainersToUpdate *Updates `json:"containersToUpdate,omitempty"`
}

// Updates are the containers whose resources change without a restart.
type Updates struct {
	CPU    []Update `json:"cpu,omitempty"`
	Memory []Update `json:"memory,omitempty"`
}

// Update is one container whose resources change without a restart.
type Update struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Desired Resources `json:"desired"`
	Current Resources `json:"current"`
}

// Resources are CPU in thousandths and memory in bytes.
type Resources struct {
	CPULimit      int64 `json:"cpuLimitMilli"`
	CPURequest    int64 `json:"cpuRequestMilli"`
	MemoryLimit   int64 `json:"memoryLimit"`
	MemoryRequest int64 `json:"memoryRequest"`
}

// Kill is one container to be killed.
type Kill struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	SpecName string `json:"specName"`
	Message  string `json:"message"`
	Reason   string `json:"reason"`
}

// Reset is one container to be removed.
type Reset struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kill bool   `json:"kill"`
}

// Encode returns the actions of a plan in the format of the vectors.
func Encode(a plan.Actions) Actions {
	encoded := Actions{
		KillPod:                    a.KillPod,
		CreateSandbox:              a.CreateSandbox,
		SandboxID:                  a.SandboxID,
		Attempt:                    a.Attempt,
		InitContainersToStart:      append([]int{}, a.InitContainersToStart...),
		ContainersToStart:          append([]int{}, a.ContainersToStart...),
		EphemeralContainersToStart: append([]int{}, a.EphemeralContainersToStart...),
		ContainersToKill:           make([]Kill, 0, len(a.ContainersToKill)),
		ContainersToReset:          make([]Reset, 0, len(a.ContainersToReset)),
		UpdatePodResources:         a.UpdatePodResources,
	}
	if len(a.CPUToUpdate)+len(a.MemoryToUpdate) > 0 {
		encoded.ContainersToUpdate = &Updates{CPU: encodeUpdates(a.CPUToUpdate), Memory: encodeUpdates(a.MemoryToUpdate)}
	}
	for _, k := range a.ContainersToKill {
		encoded.ContainersToKill = append(encoded.ContainersToKill, encodeKill(k))
	}
	slices.SortFunc(encoded.ContainersToKill, func(a, b Kill) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range a.ContainersToReset {
		encoded.ContainersToReset = append(encoded.ContainersToReset, Reset{ID: r.ID, Name: r.Name, Kill: r.Kill != nil})
	}
	return encoded
}

func encodeUpdates(updates []plan.ResourceUpdate) []Update {
	var encoded []Update
	for _, u := range updates {
		encoded = append(encoded, Update{ID: u.ID, Name: u.Name, Desired: encodeResources(u.Desired), Current: encodeResources(u.Current)})
	}
	return encoded
}

func encodeResources(r plan.Resources) Resources {
	return Resources{
		CPULimit: r.CPULimit, CPURequest: r.CPURequest, MemoryLimit: r.MemoryLimit, MemoryRequest: r.MemoryRequest,
	}
}

func encodeKill(k plan.Kill) Kill {
	encoded := Kill{ID: k.ID, Name: k.Name, SpecName: k.Name, Message: k.Message, Reason: reasons[k.Trigger]}
	if k.Removed {
		encoded.SpecName = ""
	}
	return encoded
}

// reasons are the kubelet's words for the triggers; those without one are empty
// there. (kubelet kuberuntime_container.go:containerKillReason)
var reasons = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerPostStartHookFailed:  "FailedPostStartHook",
	v1alpha1.TriggerStartupProbe:         "StartupProbe",
	v1alpha1.TriggerLivenessProbe:        "LivenessProbe",
	v1alpha1.TriggerUnknownState:         "Unknown",
	v1alpha1.TriggerRestartAllContainers: "RestartAllContainers",
}

// TriggerOf returns the trigger that a reason of the vectors stands for. An
// empty one is every trigger without a word of its own; DefinitionChanged stands
// for them.
func TriggerOf(reason string) (trigger v1alpha1.KillTrigger, known bool) {
	if reason == "" {
		return v1alpha1.TriggerDefinitionChanged, true
	}
	for t, r := range reasons {
		if r == reason {
			return t, true
		}
	}
	return "", false
}
