// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// nodeLost is the reason of a pod whose node is unreachable.
// (kubernetes pkg/util/node/node.go:NodeUnreachablePodReason)
const nodeLost = "NodeLost"

// Summary is what kubectl prints about a Pod.
type Summary struct {
	// Status is the STATUS column: Running, CrashLoopBackOff, Terminating, ...
	Status string
	// Ready is the READY column: "ready containers/all containers".
	Ready string
	// Restarts is the number in the RESTARTS column.
	Restarts int32
}

// Summarize returns what kubectl get pod prints for a pod with that status; the
// pod's own status is not read.
// (kubernetes pkg/printers/internalversion/printers.go:printPod)
func Summarize(pod *corev1.Pod, st *corev1.PodStatus) Summary {
	p := printer{pod: pod, st: st, status: string(st.Phase)}
	if st.Reason != "" {
		p.status = st.Reason
	}
	if scheduled := conditionByType(st.Conditions, corev1.PodScheduled); scheduled != nil && scheduled.Reason == corev1.PodReasonSchedulingGated {
		p.status = corev1.PodReasonSchedulingGated
	}
	if !p.initializing() || isTrue(st.Conditions, corev1.PodInitialized) {
		p.main()
	}
	if pod.DeletionTimestamp != nil {
		switch {
		case st.Reason == nodeLost:
			p.status = "Unknown"
		case !plan.Ended(st.Phase):
			p.status = "Terminating"
		}
	}
	return Summary{
		Status:   p.status,
		Ready:    fmt.Sprintf("%d/%d", p.ready, len(readyNames(&pod.Spec))),
		Restarts: p.restarts,
	}
}

// printer gathers the columns of one pod.
type printer struct {
	pod             *corev1.Pod
	st              *corev1.PodStatus
	status          string
	ready           int
	restarts        int32
	sidecarRestarts int32
}

// initializing reads the init containers up to the first that is not through,
// and is whether there is one.
func (p *printer) initializing() bool {
	for i := range p.st.InitContainerStatuses {
		container := &p.st.InitContainerStatuses[i]
		sidecar := podspec.IsSidecar(containerByName(p.pod.Spec.InitContainers, container.Name))
		p.restarts += container.RestartCount
		if sidecar {
			p.sidecarRestarts += container.RestartCount
		}
		switch {
		case container.State.Terminated != nil && container.State.Terminated.ExitCode == 0:
			continue
		case sidecar && container.Started != nil && *container.Started:
			if container.Ready {
				p.ready++
			}
			continue
		}
		p.status = p.initStatus(i)
		return true
	}
	return false
}

func (p *printer) initStatus(index int) string {
	state := p.st.InitContainerStatuses[index].State
	switch {
	case state.Terminated != nil:
		return "Init:" + exitReason(state.Terminated)
	case state.Waiting != nil && state.Waiting.Reason != "" && state.Waiting.Reason != reasonPodInitializing:
		return "Init:" + state.Waiting.Reason
	default:
		return fmt.Sprintf("Init:%d/%d", index, len(p.pod.Spec.InitContainers))
	}
}

// main reads the main containers, the last first, so that the first has the last
// word. Restarts of init containers that are through do not count any more.
func (p *printer) main() {
	p.restarts = p.sidecarRestarts
	running := false
	failure := ""
	for i := len(p.st.ContainerStatuses) - 1; i >= 0; i-- {
		container := &p.st.ContainerStatuses[i]
		p.restarts += container.RestartCount
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "":
			p.status = state.Waiting.Reason
		case state.Terminated != nil:
			p.status = exitReason(state.Terminated)
			if state.Terminated.ExitCode != 0 {
				failure = p.status
			}
		case container.Ready && state.Running != nil:
			running = true
			p.ready++
		}
	}
	if p.status != reasonCompleted {
		return
	}
	// One that has completed does not speak for those that run or failed.
	switch {
	case running && isTrue(p.st.Conditions, corev1.PodReady):
		p.status = string(corev1.PodRunning)
	case failure != "":
		p.status = failure
	case running:
		p.status = "NotReady"
	}
}

// exitReason names an exit: by its reason, its signal or its code.
func exitReason(exit *corev1.ContainerStateTerminated) string {
	switch {
	case exit.Reason != "":
		return exit.Reason
	case exit.Signal != 0:
		return fmt.Sprintf("Signal:%d", exit.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", exit.ExitCode)
	}
}
