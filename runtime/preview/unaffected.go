// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// changedFields are the fields that led to a kill of one container, if the
// template before is known.
func (b *builder) changedFields(name string, trigger v1alpha1.KillTrigger) []string {
	switch {
	case b.changes == nil:
	case trigger == v1alpha1.TriggerDefinitionChanged:
		return b.changes.containers[name].fixed
	case trigger == v1alpha1.TriggerRestartRequested:
		return b.changes.restart
	case trigger == v1alpha1.TriggerResizeRequired:
		return []string{"resources"}
	}
	return nil
}

// podFields are the fields that led to a new sandbox.
func (b *builder) podFields(trigger v1alpha1.KillTrigger) []string {
	if b.changes == nil || trigger != v1alpha1.TriggerSandboxChanged {
		return nil
	}
	return b.changes.fixed
}

// unaffected lists the containers of the template, and what else runs, that a
// plan neither kills nor starts: one that is resized runs on.
func (b *builder) unaffected(a plan.Actions) {
	touched := map[string]bool{}
	for _, s := range b.out.Steps {
		touched[s.Container] = touched[s.Container] || s.Action != ActionResize && !b.isOlder(s)
	}
	for _, m := range containersOf(b.Pod) {
		if !touched[m.container.Name] {
			b.out.Unaffected = append(b.out.Unaffected, b.unaffectedOf(m, a))
		}
	}
	for i := range b.Observed.Containers {
		s := &b.Observed.Containers[i]
		if !touched[s.Name] && s.State == plan.ContainerRunning && find(b.Pod, s.Name) == nil {
			b.out.Unaffected = append(b.out.Unaffected, b.untouched(s, "not created from a template; left alone"))
		}
	}
}

// isOlder is whether a step is about an instance that there is a newer one of.
func (b *builder) isOlder(s Step) bool {
	current := b.Observed.Current(s.Container)
	return s.ID != "" && current != nil && current.ID != s.ID
}

func (b *builder) unaffectedOf(m member, a plan.Actions) Unaffected {
	s := b.Observed.Current(m.container.Name)
	if reason := b.waitReason(m.container.Name, a); s != nil && reason != "" {
		return b.untouched(s, reason)
	}
	if s == nil {
		return Unaffected{Container: m.container.Name, Kind: m.kind, Reason: b.waitingReason(m, a)}
	}
	out := b.untouched(s, b.reasonOf(m, s, a))
	if b.changes != nil && s.State == plan.ContainerRunning {
		out.Changed = b.changes.containers[m.container.Name].inPlace
	}
	return out
}

func (b *builder) untouched(s *plan.ContainerStatus, reason string) Unaffected {
	return Unaffected{Container: s.Name, Kind: kindOf(b.Pod, s.Name), ID: s.ID, State: s.State, Reason: reason}
}

// waitingReason says why a container that the runtime does not have is not
// started.
func (b *builder) waitingReason(m member, a plan.Actions) string {
	if reason := b.waitReason(m.container.Name, a); reason != "" {
		return reason
	}
	switch {
	case a.KillPod && !a.CreateSandbox:
		return "the workload has come to its end"
	case len(a.ContainersToReset) > 0:
		return "starts when the others have been removed"
	case m.kind == KindInit && len(a.InitContainersToStart) == 0:
		return "the initialization is over"
	}
	return "waits for the init containers before it"
}

// reasonOf says why nothing happens to a container that the runtime has.
func (b *builder) reasonOf(m member, s *plan.ContainerStatus, a plan.Actions) string {
	switch {
	case a.CreateSandbox:
		return b.reasonInNewSandbox(m, s)
	case s.State == plan.ContainerRunning:
		return b.reasonToKeep(m, s)
	case s.State != plan.ContainerExited:
		return "waits for the init containers before it"
	case m.kind == KindInit && b.changes != nil && len(b.changes.containers[m.container.Name].fixed) > 0:
		return "completed; the change applies when the init containers run again"
	case m.kind == KindInit && s.ExitCode == 0:
		return "completed"
	case m.kind == KindContainer && len(a.InitContainersToStart) > 0 && plan.ShouldContainerBeRestarted(b.Pod, m.container, b.Observed):
		return "waits for the init containers before it"
	}
	return fmt.Sprintf("exited with %d and is not restarted (%s)", s.ExitCode, b.policyOf(m))
}

// reasonInNewSandbox is for what a new sandbox does not begin with.
func (b *builder) reasonInNewSandbox(m member, s *plan.ContainerStatus) string {
	if m.kind == KindContainer && s.State == plan.ContainerExited && len(b.Pod.Spec.InitContainers) == 0 {
		return fmt.Sprintf("exited with %d and is not restarted (%s)", s.ExitCode, b.policyOf(m))
	}
	return "waits for the init containers before it"
}

// reasonToKeep says why a running container is kept.
func (b *builder) reasonToKeep(m member, s *plan.ContainerStatus) string {
	switch {
	case m.kind == KindSidecar && b.notStarted(s) && plan.DefinitionChanged(b.definitions, s):
		return "definition changed; applies once it has started"
	case m.kind == KindInit && plan.DefinitionChanged(b.definitions, s):
		return "definition changed; applies when the init containers run again"
	case s.Hash == "":
		return "its definition was not recorded"
	case m.kind != KindEphemeral && s.Hash != b.definitions.Containers[s.Name] && !plan.DefinitionChanged(b.definitions, s):
		return "its definition was recorded by another version of the shim; not restarted"
	case b.changes != nil && len(b.changes.containers[s.Name].inPlace) > 0:
		return "changed fields apply without a restart"
	case b.resized(s.ID):
		return "resources change without a restart"
	case b.changes != nil:
		return "unchanged"
	}
	return "up to date"
}

func (b *builder) resized(id string) bool {
	return slices.ContainsFunc(b.out.Steps, func(s Step) bool { return s.Action == ActionResize && s.ID == id })
}

// policyOf names the restart policy that counts for a container.
func (b *builder) policyOf(m member) string {
	if p := m.container.RestartPolicy; p != nil {
		return "restartPolicy " + string(*p) + " of the container"
	}
	return "restartPolicy " + string(b.Pod.Spec.RestartPolicy)
}
