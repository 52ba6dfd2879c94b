// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/utils/net"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// maxTerminationMessages is the length of all termination messages of a pod
// together, in bytes. (kubelet container/runtime.go:MaxPodTerminationMessageLogLength)
const maxTerminationMessages = 12 * 1024

// applyAddresses sets host and pod addresses. A pod on the host's network has
// the host's; one whose sandbox is gone keeps those it had.
// (kubelet kubelet_pods.go:generateAPIPodStatus, pleg/generic.go:getPodIPs)
func (c *conversion) applyAddresses(st, old *corev1.PodStatus) {
	hostIPs := c.in.HostIPs[:min(len(c.in.HostIPs), 2)]
	for _, ip := range hostIPs {
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	podIPs := c.observed.IPs
	if len(podIPs) == 0 && !slices.ContainsFunc(c.observed.Sandboxes, isReadySandbox) {
		for _, ip := range old.PodIPs {
			podIPs = append(podIPs, ip.IP)
		}
	}
	podIPs = sortIPs(podIPs, hostIPs)
	if c.in.Pod.Spec.HostNetwork {
		podIPs = addHostIPs(podIPs, hostIPs)
	}
	for _, ip := range podIPs {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(hostIPs) > 0 {
		st.HostIP = hostIPs[0]
	}
	if len(podIPs) > 0 {
		st.PodIP = podIPs[0]
	}
}

func isReadySandbox(s plan.SandboxStatus) bool { return s.State == plan.SandboxReady }

// sortIPs returns the first address of each family, in canonical form, the
// family of the node's primary address first. (kubelet kubelet_pods.go:sortPodIPs)
func sortIPs(ips, hostIPs []string) []string {
	families := []utilnet.IPFamily{utilnet.IPv4, utilnet.IPv6}
	if len(hostIPs) > 0 && utilnet.IPFamilyOfString(hostIPs[0]) == utilnet.IPv6 {
		slices.Reverse(families)
	}
	var sorted []string
	for _, family := range families {
		for _, ip := range ips {
			if parsed := utilnet.ParseIPSloppy(ip); utilnet.IPFamilyOf(parsed) == family {
				sorted = append(sorted, parsed.String())
				break
			}
		}
	}
	return sorted
}

// addHostIPs gives a pod on the host's network the host's addresses, as far as
// it has none of that family.
func addHostIPs(podIPs, hostIPs []string) []string {
	if len(podIPs) == 0 {
		return slices.Clone(hostIPs)
	}
	if len(podIPs) == 1 && len(hostIPs) == 2 && utilnet.IPFamilyOfString(podIPs[0]) != utilnet.IPFamilyOfString(hostIPs[1]) {
		return append(podIPs, hostIPs[1])
	}
	return podIPs
}

// readiness are the conditions that say something about the instances that run.
var readiness = []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady}

// replaced reports whether a container whose readiness counts is another instance than before:
// in between it was not ready, seen or not.
func (c *conversion) replaced(st, old *corev1.PodStatus) bool {
	now, before := slices.Concat(st.InitContainerStatuses, st.ContainerStatuses), slices.Concat(old.InitContainerStatuses, old.ContainerStatuses)
	return slices.ContainsFunc(readyNames(&c.in.Pod.Spec), func(name string) bool {
		status, earlier := statusByName(now, name), statusByName(before, name)
		return earlier != nil && earlier.ContainerID != "" && !sameInstance(status, earlier)
	})
}

// applyTimes keeps the start time, and the transition times of conditions whose status has not
// changed. With replaced, those that are about instances start again.
// (kubelet status/status_manager.go:updateLastTransitionTime)
func applyTimes(st, old *corev1.PodStatus, now time.Time, replaced bool) {
	st.StartTime = old.StartTime.DeepCopy()
	if st.StartTime.IsZero() {
		st.StartTime = &metav1.Time{Time: now}
	}
	for i := range st.Conditions {
		condition := &st.Conditions[i]
		if !slices.Contains(ownConditions, condition.Type) {
			continue
		}
		condition.LastTransitionTime = metav1.NewTime(now)
		if replaced && condition.Status == corev1.ConditionTrue && slices.Contains(readiness, condition.Type) {
			continue
		}
		if before := conditionByType(old.Conditions, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
}

// normalize cuts times to what the API stores, so that equal statuses compare
// equal, and bounds termination messages.
// (kubelet status/status_manager.go:normalizeStatus)
func normalize(pod *corev1.Pod, st *corev1.PodStatus) {
	limit := maxTerminationMessages
	if n := len(pod.Spec.Containers) + len(pod.Spec.InitContainers) + len(pod.Spec.EphemeralContainers); n > 0 {
		limit /= n
	}
	cutTime(st.StartTime)
	for i := range st.Conditions {
		cutTime(&st.Conditions[i].LastProbeTime)
		cutTime(&st.Conditions[i].LastTransitionTime)
	}
	for _, statuses := range [][]corev1.ContainerStatus{st.ContainerStatuses, st.InitContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range statuses {
			normalizeState(&statuses[i].State, limit)
			normalizeState(&statuses[i].LastTerminationState, limit)
		}
	}
}

func normalizeState(state *corev1.ContainerState, limit int) {
	if state.Running != nil {
		cutTime(&state.Running.StartedAt)
	}
	if state.Terminated != nil {
		cutTime(&state.Terminated.StartedAt)
		cutTime(&state.Terminated.FinishedAt)
		state.Terminated.Message = text.Cut(state.Terminated.Message, limit)
	}
}

// cutTime drops what is below a second.
func cutTime(t *metav1.Time) { *t = t.Rfc3339Copy() }
