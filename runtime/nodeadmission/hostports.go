// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeadmission

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// messageHostPorts has the words of the kubelet, which asks the scheduler's plugin. (kubelet
// lifecycle/predicate.go, scheduler nodeports/node_ports.go)
const messageHostPorts = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"

// everyAddress is the host IP of a port that has none.
const everyAddress = "0.0.0.0"

// maxNamed is how many holders of host ports a refusal names.
const maxNamed = 3

// Workload is one of the node's, as far as others may be in its way.
type Workload struct {
	UID types.UID
	// Has are its pods that run or may be started, and Asks is the one that waits for the node to
	// admit it, nil if none does.
	Has  []*corev1.Pod
	Asks *corev1.Pod
}

// HostPorts admits pods whose host ports no other has.
type HostPorts struct {
	// Workloads are those of the node.
	Workloads func() []Workload
	// Asked counts what others wait to be admitted with, too.
	Asked bool
}

// Admit refuses a pod that asks for a host port of another, and names those that have it. (scheduler
// nodeports/node_ports.go:Fits)
func (h *HostPorts) Admit(pod *corev1.Pod) *plan.Refusal {
	if !hasHostPort(pod) {
		return nil
	}
	all := h.Workloads()
	var reasons []string
	taken := all
	if h.Asked {
		taken = withAsked(all)
	}
	for _, holder := range holders(pod, pod.UID, taken) {
		reasons = append(reasons, holder.why(pod, waitsFor(holder.workload, pod.UID, all)))
	}
	if len(reasons) == 0 {
		return nil
	}
	slices.Sort(reasons)
	if more := len(reasons) - maxNamed; more > 0 {
		reasons = append(reasons[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return &plan.Refusal{Reason: plan.ReasonHostPorts, Message: messageHostPorts + ": " + strings.Join(reasons, "; ")}
}

// withAsked has the workloads hold what they wait for.
func withAsked(all []Workload) []Workload {
	all = slices.Clone(all)
	for i := range all {
		if w := &all[i]; w.Asks != nil {
			w.Has = append(slices.Clone(w.Has), w.Asks)
		}
	}
	return all
}

// holder is a workload with a pod that has a host port which another asks for.
type holder struct {
	workload Workload
	pod      *corev1.Pod
	port     corev1.ContainerPort
}

// holders returns the workloads beside that with a UID that have a host port which a pod asks for.
func holders(pod *corev1.Pod, uid types.UID, all []Workload) []holder {
	var found []holder
	for _, w := range all {
		if w.UID == uid {
			continue
		}
		for _, other := range w.Has {
			if port, taken := samePort(pod, other); taken {
				found = append(found, holder{w, other, port})
				break
			}
		}
	}
	return found
}

// why says who has a port, and what gives it to the pod that asks. Workloads of other namespaces are not
// named. inTurn says that the holder waits for that pod's workload.
func (h holder) why(pod *corev1.Pod, inTurn bool) string {
	name := "a NodeWorkload of another namespace"
	if h.pod.Namespace == pod.Namespace {
		name = "NodeWorkload " + h.pod.Name
	}
	if h.pod == h.workload.Asks {
		return fmt.Sprintf("%d/%s is what %s waits for, and is to have first", h.port.HostPort, cmp.Or(h.port.Protocol, corev1.ProtocolTCP), name)
	}
	until := "until it is changed or deleted"
	if inTurn {
		until = "which waits, directly or through others, for a host port of this one: delete one of them, or change one to a free host port first"
	}
	return fmt.Sprintf("%d/%s is that of %s, %s", h.port.HostPort, cmp.Or(h.port.Protocol, corev1.ProtocolTCP), name, until)
}

// waitsFor reports whether a workload waits for host ports of that with a UID, or of one that waits for it.
func waitsFor(w Workload, uid types.UID, all []Workload) bool {
	seen := map[types.UID]bool{}
	var reaches func(Workload) bool
	reaches = func(w Workload) bool {
		if w.UID == uid {
			return true
		}
		if seen[w.UID] || w.Asks == nil {
			return false
		}
		seen[w.UID] = true
		return slices.ContainsFunc(holders(w.Asks, w.UID, all), func(next holder) bool { return reaches(next.workload) })
	}
	return reaches(w)
}

func hasHostPort(pod *corev1.Pod) bool {
	for range hostPorts(pod) {
		return true
	}
	return false
}

// samePort returns the first host port that two pods cannot have at once.
func samePort(a, b *corev1.Pod) (port corev1.ContainerPort, same bool) {
	for p := range hostPorts(a) {
		for q := range hostPorts(b) {
			if conflict(p, q) {
				return p, true
			}
		}
	}
	return corev1.ContainerPort{}, false
}

// conflict is whether two host ports cannot be had at once. (scheduler
// framework:HostPortInfo.CheckConflict)
func conflict(p, q corev1.ContainerPort) bool {
	if p.HostPort != q.HostPort || cmp.Or(p.Protocol, corev1.ProtocolTCP) != cmp.Or(q.Protocol, corev1.ProtocolTCP) {
		return false
	}
	a, b := cmp.Or(p.HostIP, everyAddress), cmp.Or(q.HostIP, everyAddress)
	return a == b || a == everyAddress || b == everyAddress
}

// hostPorts yields those of the containers that run as long as the pod. (scheduler
// util:GetHostPorts)
func hostPorts(pod *corev1.Pod) iter.Seq[corev1.ContainerPort] {
	return func(yield func(corev1.ContainerPort) bool) {
		for c := range longRunning(pod) {
			for _, p := range c.Ports {
				if p.HostPort > 0 && !yield(p) {
					return
				}
			}
		}
	}
}

func longRunning(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) && !yield(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
}
