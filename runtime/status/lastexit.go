// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// lastExit returns the last end of a container that no kill caused. An exit that an
// earlier status had already is older than one it had not, whatever the clocks say;
// of several new ones the last by the runtime's clock counts. With oomKilled a single
// one by SIGKILL was the kernel's, where the runtime gives no reason.
func lastExit(st *corev1.PodStatus, previous *v1alpha1.NodeWorkloadStatus, kills []v1alpha1.KillRecord, oomKilled bool) *v1alpha1.ContainerExit {
	known := map[string]bool{}
	for _, e := range exits(previous.InitContainerStatuses, previous.ContainerStatuses) {
		known[e.id()] = true
	}
	last := previous.LastExit.DeepCopy()
	var newest *exit
	bySIGKILL := 0
	for _, e := range exits(st.InitContainerStatuses, st.ContainerStatuses) {
		if known[e.id()] || e.id() == "" || wasKilled(e, kills) {
			continue
		}
		if e.state.ExitCode == exitCodeSIGKILL {
			bySIGKILL++
		}
		if newest == nil || !e.state.FinishedAt.Before(&newest.state.FinishedAt) {
			newest = &e
		}
	}
	if newest == nil {
		return last
	}
	if oomKilled && bySIGKILL == 1 && newest.state.ExitCode == exitCodeSIGKILL && usual[newest.state.Reason] {
		state := *newest.state
		state.Reason = reasonOOMKilled
		newest = &exit{container: newest.container, state: &state}
	}
	return newest.report()
}

// reasonOOMKilled is the runtime's word for what the kernel killed for its memory.
const reasonOOMKilled = "OOMKilled"

// exit is a terminated instance of a container.
type exit struct {
	container string
	state     *corev1.ContainerStateTerminated
}

func (e exit) id() string { return e.state.ContainerID }

// exits are the terminated instances in container statuses, without init containers
// that succeeded.
func exits(initContainers, containers []corev1.ContainerStatus) []exit {
	var found []exit
	add := func(list []corev1.ContainerStatus, success bool) {
		for i := range list {
			for _, state := range []corev1.ContainerState{list[i].LastTerminationState, list[i].State} {
				if t := state.Terminated; t != nil && (success || t.ExitCode != 0) {
					found = append(found, exit{container: list[i].Name, state: t})
				}
			}
		}
	}
	add(initContainers, false)
	add(containers, true)
	return found
}

// wasKilled says that the shim killed that instance, or was about to: then the kill's
// record has its exit.
func wasKilled(e exit, kills []v1alpha1.KillRecord) bool {
	_, id, _ := strings.Cut(e.id(), "://")
	ended := e.state.FinishedAt.Time
	return plan.EndedByKill(kills, id, ended) || plan.EndedByKill(kills, e.id(), ended)
}

func (e exit) report() *v1alpha1.ContainerExit {
	reported := &v1alpha1.ContainerExit{
		Container:   truncateRunes(e.container, 63),
		ContainerID: truncateRunes(e.id(), 256),
		ExitCode:    e.state.ExitCode,
		Reason:      shown(e.state.Reason, 256),
		Summary:     shown(oneLine(e.summary()), 256),
	}
	if !e.state.FinishedAt.IsZero() {
		reported.FinishTime = e.state.FinishedAt.DeepCopy()
	}
	return reported
}

// summary is the reason, where the exit code does not say it, and the code.
func (e exit) summary() string {
	if usual[e.state.Reason] {
		return fmt.Sprintf("exit %d", e.state.ExitCode)
	}
	return fmt.Sprintf("%s (%d)", e.state.Reason, e.state.ExitCode)
}
