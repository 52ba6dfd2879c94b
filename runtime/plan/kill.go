// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// Delays until a kill that failed is tried again: after the first failure, and at most. The
// kubelet waits the second at once.
const (
	killRetryMin = time.Second
	killRetryMax = 10 * time.Second
)

// KillRetryAfter is when a kill is tried again that has failed so often, once at least.
func KillRetryAfter(failures int) time.Duration {
	return min(killRetryMin<<min(failures-1, 10), killRetryMax)
}

// OutOfDate reports whether a kill that failed is not to be tried again as it was decided: the kills of its pod were
// given most seconds since, which is less; nil if they were given none.
func (k *Kill) OutOfDate(most *int64) bool { return most != nil && *most < k.Grace.Seconds }

// Kill is one container to be killed. Everything about it is decided in this
// package; the executor carries it out.
type Kill struct {
	// ID and Name of the container.
	ID, Name string
	// Trigger says why, and Message is that of the event Killing; an empty one is
	// "Stopping container <name>".
	Trigger v1alpha1.KillTrigger
	Message string
	// Cause is written to the record instead of Message, if set.
	Cause string
	// ChangedFields names the fields of the container that differ from what it was made
	// from, when its changed definition is why it is killed and both are known.
	ChangedFields []string
	// RequestedBy is the part that asked for the kill.
	RequestedBy string
	// Grace is the grace period, before the minimum.
	Grace Grace
	// Container is the definition that applies, with hook and ports: the template's,
	// or what was recorded when the container was created. It is nil if the pod does
	// not name the container and its record does not count: then it cannot be
	// killed, as in the kubelet.
	Container *corev1.Container
	// WaitsFor names the containers of the same pod kill, or sync, and those that an earlier sync
	// kills, that end before this one.
	WaitsFor []string
	// FromRecord is whether Container and Grace are those recorded at creation.
	FromRecord bool
	// Removed is whether the template does not name the container any more: it is
	// removed after its kill.
	Removed bool
}

// Stop is one call of StopContainer.
type Stop struct {
	ID             string
	TimeoutSeconds int64
}

// thawDelay is what a runtime has after its SIGKILL to let a paused container end: runc
// resumes it for that, others leave it to the kernel, which does not on cgroup v1.
const thawDelay = 2 * time.Second

// ThawAfter is how long after the call a container that is paused on cgroup v1, and has not ended, is
// resumed, so that the runtime's SIGKILL reaches it. Before that it stays paused: whoever has
// paused it may not want it to run.
func (s Stop) ThawAfter() time.Duration {
	return time.Duration(min(s.TimeoutSeconds, math.MaxInt32))*time.Second + thawDelay
}

// Stop returns the call that ends a kill of which so many seconds are left.
func (k Kill) Stop(left int64) Stop {
	return Stop{ID: k.ID, TimeoutSeconds: StopTimeout(left)}
}

// PreStop returns the hook that the kill runs if there is time for it, nil if it
// has none.
func (k Kill) PreStop() *corev1.LifecycleHandler {
	if k.Container == nil || k.Container.Lifecycle == nil {
		return nil
	}
	return k.Container.Lifecycle.PreStop
}

// PreStopWithin returns the hook that the kill runs with so many seconds left, nil
// if it has none or no time for it.
// (kubelet kuberuntime_container.go:killContainer)
func (k Kill) PreStopWithin(left int64) *corev1.LifecycleHandler {
	if left <= 0 {
		return nil
	}
	return k.PreStop()
}

// WaitsWithin returns the containers whose end the kill waits for with so many
// seconds left: none if there is no time for it.
// (kubelet kuberuntime_container.go:killContainer)
func (k Kill) WaitsWithin(left int64) []string {
	if left <= 0 {
		return nil
	}
	return k.WaitsFor
}

// EventMessage is the message of the event Killing.
func (k Kill) EventMessage() string {
	if k.Message != "" {
		return k.Message
	}
	return "Stopping container " + k.Name
}

// RecordMessage is why the record says that the container is killed.
func (k Kill) RecordMessage() string {
	if k.Cause != "" {
		return k.Cause
	}
	return k.EventMessage()
}

// DecideKill decides about the kill of one container: why has the trigger, the
// messages and who asked. override replaces the grace period, nil does not.
func DecideKill(pod *corev1.Pod, s *ContainerStatus, why Kill, override *Grace, d Differences) Kill {
	spec := podspec.Container(pod, s.Name)
	return decideKill(pod, s, why, spec != nil && Redefined(spec, s), override, d)
}

// PodKills decides about the kills of a whole pod: every container that runs, or
// may run. They begin at once, each waits for those in WaitsFor. They are listed in
// the order of the template, those that it does not name last, by name.
// (kubelet kuberuntime_container.go:killContainersWithSyncResult)
func PodKills(r KillRequest, d Differences) []Kill {
	var kills []Kill
	var made []ContainerStatus
	for i := range r.Observed.Containers {
		if s := &r.Observed.Containers[i]; s.State == ContainerRunning || d.KillUnknown && s.State == ContainerUnknown {
			why := Kill{Trigger: r.Trigger, Cause: r.Message, RequestedBy: r.RequestedBy}
			kills = append(kills, DecideKill(r.Pod, s, why, r.Override, d))
			made = append(made, *s)
		}
	}
	sortKills(r.Pod, kills)
	return inOrder(r.Pod, kills, made, func(Kill) bool { return true })
}

// ResumedKills decides how kills that were cut off continue, one for each status
// of their containers.
func ResumedKills(pod *corev1.Pod, open []KillProgress, statuses []ContainerStatus, d Differences) []Kill {
	kills := make([]Kill, len(open))
	for i := range open {
		rec := &open[i].Record
		grace := Grace{Seconds: rec.Grace.Seconds, Source: rec.Grace.Source}
		why := Kill{Trigger: rec.Trigger, Message: rec.Message, RequestedBy: rec.RequestedBy}
		kills[i] = DecideKill(pod, &statuses[i], why, &grace, d)
	}
	return inOrder(pod, kills, statuses, onPurpose)
}

// panicsBeforeNoHook is how often a kill may panic before it runs no hook.
const panicsBeforeNoHook = 3

// LabelKill decides about the kill of a container by what its own labels say, after
// carrying out other decisions has panicked so many times. At last it does nothing
// but stop the container.
func LabelKill(pod *corev1.Pod, s *ContainerStatus, k Kill, panics int) Kill {
	spec, c := recorded(pod, s, nil)
	if panics >= panicsBeforeNoHook {
		c.Lifecycle = nil
	}
	k.ID, k.Name, k.Container, k.FromRecord, k.WaitsFor = s.ID, s.Name, c, true, nil
	k.Grace = ContainerGrace(spec, c, k.Trigger)
	return k
}

// PostStartKill decides about the kill of a container whose postStart hook failed.
// (kubelet kuberuntime_container.go:startContainer)
func PostStartKill(pod *corev1.Pod, name, id, requestedBy string, d Differences) Kill {
	why := Kill{Trigger: v1alpha1.TriggerPostStartHookFailed, Message: "FailedPostStartHook", RequestedBy: requestedBy}
	return decideKill(pod, &ContainerStatus{ID: id, Name: name}, why, false, nil, d)
}

// GarbageKill decides about the kill of a container in unknown state before it is
// removed as garbage. pod says whose it is. (kubelet kuberuntime_gc.go:removeOldestN)
func GarbageKill(pod *corev1.Pod, s *ContainerStatus) Kill {
	why := Kill{
		Trigger: v1alpha1.TriggerGarbageCollection, RequestedBy: "garbage collector",
		Message: "Container is in unknown state, try killing it before removal",
	}
	return decideKill(pod, s, why, false, nil, Differences{})
}

// decideKill is the one place that decides which definition and which grace
// period a kill goes by.
func decideKill(pod *corev1.Pod, s *ContainerStatus, k Kill, redefined bool, override *Grace, d Differences) Kill {
	k.ID, k.Name = s.ID, s.Name
	spec := pod
	k.Container = podspec.Container(pod, s.Name)
	if k.FromRecord = goesByRecord(k, redefined, d); k.FromRecord {
		spec, k.Container = recorded(pod, s, k.Container)
	}
	switch {
	case override != nil:
		k.Grace = *override
	case k.Container != nil:
		k.Grace = ContainerGrace(spec, k.Container, k.Trigger)
	}
	return k
}

// goesByRecord is whether a kill goes by what was recorded when the container was
// created: garbage has no pod; a template that does not name the container, or
// defines it differently, may have a hook that does not exist in its image. The
// pod of an orphan is made of records.
func goesByRecord(k Kill, redefined bool, d Differences) bool {
	switch {
	case k.Trigger == v1alpha1.TriggerGarbageCollection:
		return true
	case k.Container == nil:
		return d.KillStrays
	case k.Trigger == v1alpha1.TriggerOrphan:
		return false
	default:
		return redefined && d.KillByRecord
	}
}

// recorded returns what a kill by record goes by. A deletion of the pod as it is
// now counts more than what was recorded, and a probe that asks for the kill is
// the template's, now, with its grace period.
// (kubelet kuberuntime_container.go:restoreSpecsFromContainerLabels)
func recorded(pod *corev1.Pod, s *ContainerStatus, now *corev1.Container) (*corev1.Pod, *corev1.Container) {
	rec := &s.Recorded
	spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
		DeletionGracePeriodSeconds: rec.DeletionGracePeriodSeconds,
	}}
	if pod.DeletionGracePeriodSeconds != nil {
		spec.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	}
	spec.Spec.TerminationGracePeriodSeconds = rec.TerminationGracePeriodSeconds
	c := &corev1.Container{Name: s.Name, Ports: rec.Ports, TerminationMessagePath: rec.TerminationMessagePath}
	if rec.PreStop != nil {
		c.Lifecycle = &corev1.Lifecycle{PreStop: rec.PreStop}
	}
	if now != nil {
		c.LivenessProbe, c.StartupProbe = now.LivenessProbe, now.StartupProbe
	}
	return spec, c
}

// sortKills sorts kills as the template lists the containers.
func sortKills(pod *corev1.Pod, kills []Kill) {
	var names []string
	for c := range podspec.InitAndMain(pod) {
		names = append(names, c.Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	position := func(k Kill) uint { return uint(slices.Index(names, k.Name)) } // that of an unknown name is the largest
	slices.SortStableFunc(kills, func(a, b Kill) int {
		return cmp.Or(cmp.Compare(position(a), position(b)), cmp.Compare(a.Name, b.Name))
	})
}
