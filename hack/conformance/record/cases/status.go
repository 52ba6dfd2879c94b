// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/hack/recordings"
)

var reasons = []string{
	"CrashLoopBackOff", "RunContainerError", "CreateContainerError", "PostStartHookError", "ErrImagePull", "ImagePullBackOff",
	"CreateContainerConfigError", "ErrImageNeverPull", "InvalidImageName",
}

// NewStatus makes a case of status: one of the known with changes, or another one.
func NewStatus(seed uint64, n int, known []*Status) *Status {
	d := newDice(seed, uint64(n))
	c := clone(known[d.IntN(len(known))])
	other := d.chance(50)
	if other {
		c.Pod = d.pod(n, d.chance(5))
		c.PodStatus = d.observed(c.Pod)
		c.PodIsTerminal = d.chance(17)
	} else {
		d.mutate(c.Pod, &c.PodStatus)
	}
	c.ID = fmt.Sprintf("status-%d-%d", seed, n)
	if other || d.chance(30) {
		c.Pod.Status = d.oldStatus(c.Pod, &c.PodStatus)
	}
	d.gates(c.Pod)
	if other || d.chance(50) || !allActiveSeen(c) {
		c.PodStatus.ActiveContainerIDs = []string{}
		percent := pick(d, 0, 50, 80, 100, 100)
		for i := range c.PodStatus.Containers {
			if d.chance(percent) {
				c.PodStatus.ActiveContainerIDs = append(c.PodStatus.ActiveContainerIDs, c.PodStatus.Containers[i].ID)
			}
		}
	}
	if other || d.chance(30) {
		c.StartupResults = d.verdicts(&c.PodStatus, 50)
		c.ReasonCache = map[string]recordings.Reason{}
		for _, container := range some(d, 35, containersOf(c.Pod)) {
			c.ReasonCache[container.Name] = recordings.Reason{Reason: pick(d, reasons...), Message: "why " + container.Name}
		}
	}
	return c
}

// allActiveSeen reports whether what is active is seen, after changes.
func allActiveSeen(c *Status) bool {
	ids := map[string]bool{}
	for i := range c.PodStatus.Containers {
		ids[c.PodStatus.Containers[i].ID] = true
	}
	for _, id := range c.PodStatus.ActiveContainerIDs {
		if !ids[id] {
			return false
		}
	}
	return true
}

// gates gives a few pods readiness gates.
func (d dice) gates(p *corev1.Pod) {
	if !d.chance(5) {
		return
	}
	for _, name := range []corev1.PodConditionType{"example.com/a", "example.com/b"} {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: name})
		if status := maybe(d, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown); status != nil {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: name, Status: *status})
		}
	}
}

// oldStatus makes the status that a pod had before.
func (d dice) oldStatus(p *corev1.Pod, s *recordings.PodStatus) corev1.PodStatus {
	old := corev1.PodStatus{Phase: pick(d, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning,
		corev1.PodPending, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded)}
	if old.Phase == corev1.PodFailed && d.chance(50) {
		old.Reason, old.Message = "Evicted", "The node was low on resource: memory."
	}
	old.InitContainerStatuses = d.oldContainers(p.Spec.InitContainers, s)
	old.ContainerStatuses = d.oldContainers(p.Spec.Containers, s)
	old.EphemeralContainerStatuses = d.oldContainers(containersOf(p)[len(p.Spec.InitContainers)+len(p.Spec.Containers):], s)
	for _, kind := range []corev1.PodConditionType{corev1.AllContainersRestarting, corev1.DisruptionTarget, corev1.PodInitialized, corev1.PodReady} {
		if d.chance(12) {
			old.Conditions = append(old.Conditions, corev1.PodCondition{Type: kind, Status: pick(d, corev1.ConditionTrue, corev1.ConditionFalse)})
		}
	}
	return old
}

func (d dice) oldContainers(list []corev1.Container, s *recordings.PodStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range some(d, 75, list) {
		st := corev1.ContainerStatus{Name: c.Name, Image: c.Image, RestartCount: pick[int32](d, 0, 0, 0, 0, 1, 2, 3, 4)}
		id := RuntimeName + "://" + c.Name + "-gone"
		for i := range s.Containers {
			if s.Containers[i].Name == c.Name && d.chance(50) {
				id = RuntimeName + "://" + s.Containers[i].ID
				st.RestartCount = int32(s.Containers[i].RestartCount)
				break
			}
		}
		if d.chance(25) {
			st.LastTerminationState.Terminated = d.terminated(RuntimeName + "://" + c.Name + "-older")
		}
		switch d.IntN(5) {
		case 0:
			st.State.Waiting = &corev1.ContainerStateWaiting{Reason: pick(d, "ContainerCreating", "PodInitializing", "CrashLoopBackOff")}
		case 1, 2:
			st.ContainerID = id
			st.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(recordedFrom)}
			st.Started = pick(d, nil, ptr.To(true), ptr.To(true), ptr.To(true), ptr.To(false))
		default:
			st.ContainerID = id
			st.State.Terminated = d.terminated(id)
		}
		out = append(out, st)
	}
	return out
}

func (d dice) terminated(id string) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ContainerID: id, ExitCode: pick(d, exitCodes...), Reason: "Error",
		StartedAt: metav1.NewTime(recordedFrom.Add(-2 * time.Minute)), FinishedAt: metav1.NewTime(recordedFrom.Add(-time.Minute)),
	}
	if t.ExitCode == 0 {
		t.Reason = "Completed"
	}
	if d.chance(7) {
		t.Reason = "RestartingAllContainers"
	}
	return t
}

// apiStatus makes the status that restart decisions read, or none.
func (d dice) apiStatus(p *corev1.Pod) *corev1.PodStatus {
	if d.chance(13) {
		return nil
	}
	st := &corev1.PodStatus{Phase: corev1.PodRunning}
	if d.chance(40) {
		st.Conditions = []corev1.PodCondition{{
			Type: corev1.AllContainersRestarting, Status: pick(d, corev1.ConditionTrue, corev1.ConditionFalse),
		}}
	}
	st.InitContainerStatuses, st.ContainerStatuses = d.apiContainers(p.Spec.InitContainers), d.apiContainers(p.Spec.Containers)
	return st
}

func (d dice) apiContainers(list []corev1.Container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range some(d, 75, list) {
		st := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		switch d.IntN(4) {
		case 0:
			st.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		case 1:
			st.State.Running = &corev1.ContainerStateRunning{}
		default:
			st.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: pick(d, exitCodes...)}
		}
		if d.chance(8) {
			st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: pick(d, exitCodes...)}
		}
		out = append(out, st)
	}
	return out
}
