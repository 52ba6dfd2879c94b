// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// Input is what a preview depends on.
type Input struct {
	// Pod is the desired state.
	Pod *corev1.Pod
	// Observed is what the runtime has, or is taken to have (Running).
	Observed *plan.PodStatus
	// Images are what the runtime has of the pod's images; nil if it was not asked.
	Images plan.Images
	// Source says which of the two.
	Source Source
	// Status is the last one that the shim published; nil if it is not known.
	Status *v1alpha1.NodeWorkloadStatus
	// Before is the desired state before the change that is previewed; nil if it
	// is not known or if there is no change.
	Before *corev1.Pod
	// Blocked is why the shim would not begin with a plan; a termination does not
	// wait for that.
	Blocked []string
	// Misplaced is why the manager ends the workload on this node; empty if it does
	// not.
	Misplaced string
	// Undecided is what the answer depends on and is not known; empty if nothing.
	Undecided string
	// Notes are what else there is to know.
	Notes []string
	// Now is the time of day.
	Now time.Time
}

// builder makes one preview.
type builder struct {
	Input
	definitions *plan.Definitions
	changes     *changes
	pulled      []string // the images that the steps so far pull
	volumes     []string // the volumes whose images the starts so far have
	out         Preview
}

// Compute returns what a shim would do about a workload, as its worker decides it:
// terminate or carry a plan out. (podworker sync.go, terminate.go)
func Compute(in Input) Preview {
	b := newBuilder(in)
	return b.compute(b.probes())
}

func newBuilder(in Input) *builder {
	b := &builder{Input: in, definitions: plan.Define(in.Pod), out: Preview{
		NodeWorkload: Identity{
			Namespace: in.Pod.Namespace, Name: in.Pod.Name, UID: in.Pod.UID, NodeName: in.Pod.Spec.NodeName,
		},
		Observed: in.Source, Steps: []Step{}, Unaffected: []Unaffected{},
	}}
	if in.Before != nil {
		b.changes = compare(in.Before, in.Pod)
	}
	return b
}

// compute asks the plan, with these verdicts of probes.
func (b *builder) compute(probes map[string]plan.ProbeResults) Preview {
	st := b.podStatus(probes)
	why := b.reasonToEnd(&st)
	if t, terminate := plan.DecideTermination(plan.Existence{Deleted: b.deleted(), Status: &st}); terminate {
		b.terminate(t, why)
	} else {
		b.out.Blocked = b.Blocked
		b.sync(b.plan(b.planInput(probes, &st)))
	}
	b.killsUnderWay()
	b.cgroupNote()
	b.inPlaceNote()
	b.out.Undecided, b.out.Notes = b.Undecided, append(b.out.Notes, b.Notes...)
	return b.out
}

// planInput is what the worker asks the plan with. (podworker scope.go:planInput)
func (b *builder) planInput(probes map[string]plan.ProbeResults, st *corev1.PodStatus) plan.Input {
	return plan.Input{
		Pod: b.Pod, Observed: b.Observed, Probes: probes, Definitions: b.definitions, Actuated: b.actuated(),
		Images: b.Images, RestartAllContainers: plan.AllContainersRestarting(st), Differences: plan.AllDifferences(),
		Exits: plan.ExitsByStatus(st),
	}
}

// deleted is whether the object is being deleted, or would be by the manager.
func (b *builder) deleted() bool { return b.Pod.DeletionTimestamp != nil || b.Misplaced != "" }

// reasonToEnd says why the workload is terminated, should it be.
func (b *builder) reasonToEnd(st *corev1.PodStatus) string {
	switch {
	case b.Pod.DeletionTimestamp != nil:
		return "The NodeWorkload is being deleted"
	case b.Misplaced != "":
		return "The manager deletes the NodeWorkload: " + b.Misplaced
	case st.Reason != "":
		return fmt.Sprintf("The workload has ended (%s, %s)", st.Phase, st.Reason)
	}
	return fmt.Sprintf("The workload has ended (%s)", st.Phase)
}

// podStatus is what the shim would report.
func (b *builder) podStatus(probes map[string]plan.ProbeResults) corev1.PodStatus {
	in := status.Input{
		Pod: b.Pod, Observed: b.Observed, Probes: probes, AgentStartedAt: b.Now, Now: b.Now, Differences: plan.AllDifferences(),
	}
	if b.Status != nil && b.Status.Phase != "" {
		previous := status.PodStatus(b.Status)
		in.Previous = &previous
	}
	limit, limited := plan.ActiveDeadline(b.Pod, in.Previous)
	active := time.Duration(0)
	if limited {
		active = b.Now.Sub(in.Previous.StartTime.Time)
	}
	in.Ending = plan.PastActiveDeadline(b.Pod, in.Previous, active)
	if limited && in.Ending == nil {
		b.note("By activeDeadlineSeconds the workload ends at %s; a change of the node's clock makes it neither earlier nor later.", in.Previous.StartTime.Add(limit).UTC().Format(time.RFC3339))
	}
	if in.Ending == nil {
		in.Ending = plan.Evicted(in.Previous)
	}
	if in.Ending == nil {
		in.Ending = plan.ShutDown(in.Previous)
	}
	return status.Compute(in)
}

// probes returns the verdicts that can be known: they live in the shim. What
// runs is taken to pass its probes, and to have started unless the last status
// says that it has not.
func (b *builder) probes() map[string]plan.ProbeResults {
	results := map[string]plan.ProbeResults{}
	probed := false
	for _, m := range containersOf(b.Pod) {
		s := b.Observed.Current(m.container.Name)
		if s == nil || s.State != plan.ContainerRunning {
			continue
		}
		probed = probed || m.container.LivenessProbe != nil || m.container.StartupProbe != nil
		verdicts := plan.ProbeResults{Liveness: plan.ProbeSuccess, Startup: plan.ProbeSuccess}
		if b.notStarted(s) {
			verdicts.Startup = plan.ProbeUnknown
		}
		results[s.ID] = verdicts
	}
	if probed && b.Source == SourceRuntime {
		b.note("The shim keeps the results of probes; running containers are assumed to pass.")
	}
	return results
}

// notStarted is whether the last status says that this instance has not started.
func (b *builder) notStarted(s *plan.ContainerStatus) bool {
	if b.Status == nil {
		return false
	}
	for _, c := range slices.Concat(b.Status.InitContainerStatuses, b.Status.ContainerStatuses) {
		if _, id, _ := strings.Cut(c.ContainerID, "://"); id == s.ID && s.ID != "" {
			return c.Started != nil && !*c.Started
		}
	}
	return false
}

// killsUnderWay notes what the last status says to be going on.
func (b *builder) killsUnderWay() {
	if b.Status == nil {
		return
	}
	for _, k := range b.Status.Kills {
		if k.Phase != v1alpha1.KillPhaseDone {
			b.note("By the status that was given, a kill of container %s (%s) was under way: phase %s.", k.Container, k.Trigger, k.Phase)
		}
	}
}

// cgroupNote notes a kill that the runtime alone does not show.
func (b *builder) cgroupNote() {
	if b.Status == nil {
		return
	}
	for _, c := range b.Status.Conditions {
		if c.Type == v1alpha1.ConditionPodCgroupMissing && c.Reason == v1alpha1.ReasonContainersOutsideCgroup {
			b.note("By the status that was given, the containers run outside the pod's cgroup: the shim kills the pod for that.")
		}
	}
}

// inPlaceNote names the fields of the pod that change without a restart.
func (b *builder) inPlaceNote() {
	if b.changes != nil && len(b.changes.inPlace) > 0 {
		b.note("Applied without a new sandbox: %s.", strings.Join(b.changes.inPlace, ", "))
	}
}

func (b *builder) note(format string, args ...any) {
	b.out.Notes = append(b.out.Notes, fmt.Sprintf(format, args...))
}

func (b *builder) step(s Step) { b.out.Steps = append(b.out.Steps, s) }
