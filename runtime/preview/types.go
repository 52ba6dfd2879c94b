// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Action is one kind of thing that a shim does.
type Action string

// The actions, in the order in which a shim does them.
const (
	// ActionKill: a container is killed, with its preStop hook and grace period.
	ActionKill Action = "Kill"
	// ActionStopSandbox: the sandbox is stopped, and by force what runs in it.
	ActionStopSandbox Action = "StopSandbox"
	// ActionRemove: a dead container is removed.
	ActionRemove Action = "Remove"
	// ActionCreateSandbox: a new sandbox is created.
	ActionCreateSandbox Action = "CreateSandbox"
	// ActionResize: a running container, or the pod, gets other resources.
	ActionResize Action = "Resize"
	// ActionPull: the image of the container that is started next is pulled.
	ActionPull Action = "Pull"
	// ActionStart: a container is created and started.
	ActionStart Action = "Start"
)

// Kind is what a container is in its template.
type Kind string

// The kinds of containers.
const (
	KindContainer Kind = "Container"
	KindInit      Kind = "InitContainer"
	KindSidecar   Kind = "Sidecar"
	KindEphemeral Kind = "EphemeralContainer"
	// KindRemoved: the template does not name the container any more.
	KindRemoved Kind = "Removed"
)

// Preview is what a shim would do about one workload.
type Preview struct {
	NodeWorkload Identity `json:"nodeWorkload"`
	// Observed is where the present state comes from.
	Observed Source `json:"observed"`
	// Steps are what the shim does, in its order; empty when nothing is to do.
	Steps []Step `json:"steps"`
	// Unaffected are the containers that are neither killed nor started.
	Unaffected []Unaffected `json:"unaffected"`
	// Blocked is why the shim would not begin yet.
	Blocked []string `json:"blocked,omitempty"`
	// Undecided is what the steps depend on and the preview does not know.
	Undecided string `json:"undecided,omitempty"`
	// Notes are what else there is to know.
	Notes []string `json:"notes,omitempty"`
}

// Source is where the state that a preview begins with comes from.
type Source string

// The sources.
const (
	// SourceRuntime: the runtime was asked.
	SourceRuntime Source = "Runtime"
	// SourceAssumed: everything is assumed to run as the old template says.
	SourceAssumed Source = "Assumed"
)

// Identity names a NodeWorkload.
type Identity struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	NodeName  string    `json:"nodeName"`
}

// Step is one thing that the shim does.
type Step struct {
	Action Action `json:"action"`
	// Container is empty for what concerns the sandbox.
	Container string `json:"container,omitempty"`
	Kind      Kind   `json:"kind,omitempty"`
	// ID is the runtime's ID of the container or sandbox.
	ID string `json:"id,omitempty"`
	// Trigger is that of a kill.
	Trigger v1alpha1.KillTrigger `json:"trigger,omitempty"`
	// Message says why; of a kill in the words of its record.
	Message string `json:"message"`
	// Changed are the fields of the template that led to a kill, if the template
	// before is known.
	Changed []string `json:"changed,omitempty"`
	// Grace is that of a kill.
	Grace *Grace `json:"grace,omitempty"`
	// PreStop is the kind of the hook that a kill runs.
	PreStop string `json:"preStop,omitempty"`
	// WaitsFor are the containers that must have ended before a sidecar is
	// stopped.
	WaitsFor []string `json:"waitsFor,omitempty"`
}

// Grace is the grace period of a kill.
type Grace struct {
	// Seconds for preStop hook, waiting and stopping together.
	Seconds int64 `json:"seconds"`
	// Source is where it comes from.
	Source v1alpha1.GraceSource `json:"source"`
	// Recorded: hook and grace period are those recorded when the container was
	// created, because its definition has changed since.
	Recorded bool `json:"recorded,omitempty"`
	// StopSeconds is what StopContainer is given if nothing else takes time.
	StopSeconds int64 `json:"-"`
}

// Unaffected is a container that is neither killed nor started.
type Unaffected struct {
	Container string `json:"container"`
	Kind      Kind   `json:"kind"`
	// ID is empty when the runtime has no such container.
	ID string `json:"id,omitempty"`
	// State is empty when the runtime has no such container.
	State plan.ContainerState `json:"state,omitempty"`
	// Reason says why nothing happens to it.
	Reason string `json:"reason"`
	// Changed are the fields of the template that are taken over without a
	// restart, if the template before is known.
	Changed []string `json:"changed,omitempty"`
}

// Kills returns the steps that kill.
func (p *Preview) Kills() []Step {
	var kills []Step
	for _, s := range p.Steps {
		if s.Action == ActionKill {
			kills = append(kills, s)
		}
	}
	return kills
}
