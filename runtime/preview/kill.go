// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// podKill is the end of all running containers.
type podKill struct {
	trigger v1alpha1.KillTrigger
	message string
	// override is the grace period of a termination, nil without one.
	override *Grace
}

// terminate lists the end of a workload: its grace period is the deletion's or
// the pod's, whatever a probe or a record says.
// (podworker desired.go:terminationGrace)
func (b *builder) terminate(message string) {
	deletion := b.Pod.DeletionGracePeriodSeconds
	seconds, _ := plan.TerminationGrace(0, deletion, nil, b.Pod.Spec.TerminationGracePeriodSeconds)
	grace := Grace{Seconds: seconds, Source: v1alpha1.GraceSourcePod}
	if deletion != nil {
		grace.Source = v1alpha1.GraceSourceDeletion
	}
	deleted := b.Pod.DeletionTimestamp != nil
	if deleted || !b.terminated() {
		b.killPod(podKill{trigger: v1alpha1.TriggerTermination, message: message, override: &grace})
	}
	for i := range b.Observed.Containers {
		s := &b.Observed.Containers[i]
		switch {
		case deleted:
			b.step(Step{Action: ActionRemove, Container: s.Name, Kind: kindOf(b.Pod, s.Name), ID: s.ID, Message: message})
		case s.State != plan.ContainerRunning && b.Observed.Current(s.Name) == s:
			b.out.Unaffected = append(b.out.Unaffected, b.stopped(s, "the workload has ended"))
		}
	}
}

// terminated is whether a workload that has ended by itself was stopped already.
func (b *builder) terminated() bool {
	if b.Status == nil || b.Status.Phase != corev1.PodSucceeded && b.Status.Phase != corev1.PodFailed {
		return false
	}
	runs := func(s plan.ContainerStatus) bool { return s.State == plan.ContainerRunning }
	ready := func(s plan.SandboxStatus) bool { return s.State == plan.SandboxReady }
	return !slices.ContainsFunc(b.Observed.Containers, runs) && !slices.ContainsFunc(b.Observed.Sandboxes, ready)
}

// killPod lists the kills of all running containers, which begin at once, and
// then the end of the sandboxes. (executor killpod.go:KillPod)
func (b *builder) killPod(kill podKill) {
	running := b.runningInOrder()
	names := make([]string, 0, len(running))
	for _, s := range running {
		names = append(names, s.Name)
	}
	order := plan.TerminationOrder(b.Pod, names)
	for _, s := range running {
		step := b.killStep(s, plan.Kill{Trigger: kill.trigger, Message: kill.message, FromRecord: b.goesByRecord(s)}, kill.override)
		step.Changed = b.podFields(kill.trigger)
		if step.Grace.Seconds > 0 {
			step.WaitsFor = order[s.Name]
		}
		b.step(step)
	}
	for _, s := range b.Observed.Sandboxes {
		b.step(Step{Action: ActionStopSandbox, ID: s.ID, Message: kill.message})
	}
}

// runningInOrder returns the running containers as the template lists them.
func (b *builder) runningInOrder() []*plan.ContainerStatus {
	var running []*plan.ContainerStatus
	for i := range b.Observed.Containers {
		if s := &b.Observed.Containers[i]; s.State == plan.ContainerRunning {
			running = append(running, s)
		}
	}
	members := containersOf(b.Pod)
	position := func(s *plan.ContainerStatus) uint {
		return uint(slices.IndexFunc(members, func(m member) bool { return m.container.Name == s.Name }))
	}
	slices.SortStableFunc(running, func(x, y *plan.ContainerStatus) int {
		return cmp.Or(cmp.Compare(position(x), position(y)), cmp.Compare(x.Name, y.Name))
	})
	return running
}

// goesByRecord is whether a kill of the pod takes hook and grace period from a
// container's record. (executor killpod.go:goesByRecord)
func (b *builder) goesByRecord(s *plan.ContainerStatus) bool {
	return find(b.Pod, s.Name) == nil || plan.DefinitionChanged(b.definitions, s)
}

// killStep describes the kill of one container. A grace period that overrides
// all others is given by the caller. (executor record.go:graceOf)
func (b *builder) killStep(s *plan.ContainerStatus, k plan.Kill, override *Grace) Step {
	spec, container := b.Pod, &corev1.Container{}
	if m := find(b.Pod, s.Name); m != nil {
		container = m.container
	}
	if k.FromRecord {
		spec, container = fromRecordOf(b.Pod, s)
	}
	usual := plan.ContainerGrace(spec, container, k.Trigger)
	grace := Grace{Seconds: usual.Seconds, Source: usual.Source, Recorded: k.FromRecord}
	if override != nil {
		grace = *override
	}
	step := Step{
		Action: ActionKill, Container: s.Name, Kind: kindOf(b.Pod, s.Name), ID: s.ID,
		Trigger: k.Trigger, Message: k.Message, Grace: &grace,
	}
	if container.Lifecycle != nil && grace.Seconds > 0 {
		step.PreStop = hookKind(container.Lifecycle.PreStop)
	}
	return step
}

// fromRecordOf is what a kill by record goes by; a deletion of the pod as it is
// now counts more. (executor target.go:restoreSpec)
func fromRecordOf(pod *corev1.Pod, s *plan.ContainerStatus) (*corev1.Pod, *corev1.Container) {
	spec := &corev1.Pod{}
	spec.DeletionGracePeriodSeconds = s.Recorded.DeletionGracePeriodSeconds
	if pod.DeletionGracePeriodSeconds != nil {
		spec.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	}
	spec.Spec.TerminationGracePeriodSeconds = s.Recorded.TerminationGracePeriodSeconds
	return spec, &corev1.Container{Name: s.Name, Lifecycle: &corev1.Lifecycle{PreStop: s.Recorded.PreStop}}
}
