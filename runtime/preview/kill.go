// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"slices"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// terminate lists the end of a workload, and says why it ends.
func (b *builder) terminate(t plan.Termination, why string) {
	deleted := b.deleted()
	if deleted || !b.stoppedBefore() {
		b.killPod(t.Request(b.Pod, b.Observed, t.Grace(b.Pod, plan.Grace{}), nil), why)
	}
	for i := range b.Observed.Containers {
		s := &b.Observed.Containers[i]
		switch {
		case deleted:
			b.step(Step{Action: ActionRemove, Container: s.Name, Kind: kindOf(b.Pod, s.Name), ID: s.ID, Message: why})
		case s.State != plan.ContainerRunning && b.Observed.Current(s.Name) == s:
			b.out.Unaffected = append(b.out.Unaffected, b.untouched(s, "the workload has ended"))
		}
	}
	if !deleted {
		b.note("%s: no container is started any more; when its template changes, the manager replaces the NodeWorkload.", why)
	}
}

// stoppedBefore is whether a workload that has ended by itself was stopped already.
func (b *builder) stoppedBefore() bool {
	if b.Status == nil || !plan.Ended(b.Status.Phase) {
		return false
	}
	runs := func(s plan.ContainerStatus) bool { return s.State == plan.ContainerRunning }
	ready := func(s plan.SandboxStatus) bool { return s.State == plan.SandboxReady }
	return !slices.ContainsFunc(b.Observed.Containers, runs) && !slices.ContainsFunc(b.Observed.Sandboxes, ready)
}

// killPod lists the kills of a whole pod, which begin at once, and then the end of
// the sandboxes, which says why.
func (b *builder) killPod(r plan.KillRequest, why string) {
	for _, k := range plan.PodKills(r, plan.AllDifferences()) {
		step := b.killStep(k)
		step.Changed = b.podFields(r.Trigger)
		step.Grace.Recorded = step.Grace.Recorded && r.Override == nil
		b.step(step)
	}
	for _, s := range b.Observed.Sandboxes {
		b.step(Step{Action: ActionStopSandbox, ID: s.ID, Message: why})
	}
}

// killStep shows a kill as it was decided.
func (b *builder) killStep(k plan.Kill) Step {
	step := Step{
		Action: ActionKill, Container: k.Name, Kind: kindOf(b.Pod, k.Name), ID: k.ID,
		Trigger: k.Trigger, Message: k.RecordMessage(), WaitsFor: k.WaitsFor,
		Grace: &Grace{
			Seconds: k.Grace.Seconds, Source: k.Grace.Source, Recorded: k.FromRecord,
			StopSeconds: k.Stop(k.Grace.Seconds).TimeoutSeconds,
		},
	}
	if hook := k.PreStopWithin(k.Grace.Seconds); hook != nil {
		step.PreStop = podspec.HandlerName(hook)
	}
	return step
}
