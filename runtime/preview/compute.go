// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	out         Preview
}

// Compute tells what a shim would do about a workload, as its worker decides it:
// terminate what is being deleted or has ended, else carry the plan out.
// (podworker sync.go:sync, terminate.go:terminate)
func Compute(in Input) Preview {
	b := &builder{Input: in, definitions: plan.Define(in.Pod), out: Preview{
		NodeWorkload: Identity{
			Namespace: in.Pod.Namespace, Name: in.Pod.Name, UID: in.Pod.UID, NodeName: in.Pod.Spec.NodeName,
		},
		Observed: in.Source, Steps: []Step{}, Unaffected: []Unaffected{},
	}}
	if in.Before != nil {
		b.changes = compare(in.Before, in.Pod)
	}
	probes := b.probes()
	st := b.podStatus(probes)
	switch {
	case in.Pod.DeletionTimestamp != nil:
		b.terminate(plan.DecideTermination(plan.TerminationFacts{Deleted: true}), "The NodeWorkload is being deleted")
	case in.Misplaced != "":
		b.Pod = b.Pod.DeepCopy()
		b.Pod.DeletionTimestamp = &metav1.Time{Time: b.Now}
		b.terminate(plan.DecideTermination(plan.TerminationFacts{Deleted: true}),
			"The manager deletes the NodeWorkload: "+in.Misplaced)
	case ended(&st):
		how := string(st.Phase)
		if st.Reason != "" {
			how += ", " + st.Reason
		}
		b.terminate(plan.DecideTermination(plan.TerminationFacts{DeadlineExceeded: st.Reason == status.ReasonDeadlineExceeded}), fmt.Sprintf("The workload has ended (%s)", how))
		b.note("The workload has ended (%s): no container is started any more; "+
			"when its template changes, the manager replaces the NodeWorkload.", how)
	default:
		b.out.Blocked = b.Blocked
		b.sync(plan.Compute(plan.Input{
			Pod: in.Pod, Observed: in.Observed, Probes: probes, Definitions: b.definitions, Actuated: b.actuated(),
			Images: b.Images, RestartAllContainers: restartingAll(&st), Differences: plan.AllDifferences(),
		}))
	}
	b.killsUnderWay()
	b.inPlaceNote()
	b.out.Undecided, b.out.Notes = in.Undecided, append(b.out.Notes, in.Notes...)
	return b.out
}

// podStatus is what the shim would report.
func (b *builder) podStatus(probes map[string]plan.ProbeResults) corev1.PodStatus {
	in := status.Input{Pod: b.Pod, Observed: b.Observed, Probes: probes, AgentStartedAt: b.Now, Now: b.Now}
	if b.Status != nil && b.Status.Phase != "" {
		previous := status.PodStatus(b.Status)
		in.Previous = &previous
	}
	in.Evicted = status.Eviction(b.Pod, in.Previous, b.Now)
	if deadline, ok := status.ActiveDeadline(b.Pod, in.Previous); ok && in.Evicted == nil {
		b.note("By activeDeadlineSeconds the workload ends at %s.", deadline.UTC().Format(time.RFC3339))
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
		b.note("The verdicts of probes live in the shim: running containers are taken to pass them.")
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

// ended says that the workload came to its end by itself.
func ended(st *corev1.PodStatus) bool {
	return st.Phase == corev1.PodSucceeded || st.Phase == corev1.PodFailed
}

// restartingAll says that the pod starts over. (kubelet kubelet.go:SyncPod)
func restartingAll(st *corev1.PodStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue
	})
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

// inPlaceNote tells which fields of the pod change without a restart.
func (b *builder) inPlaceNote() {
	if b.changes != nil && len(b.changes.inPlace) > 0 {
		b.note("Taken over without a new sandbox: %s.", strings.Join(b.changes.inPlace, ", "))
	}
}

func (b *builder) note(format string, args ...any) {
	b.out.Notes = append(b.out.Notes, fmt.Sprintf(format, args...))
}

func (b *builder) step(s Step) { b.out.Steps = append(b.out.Steps, s) }
