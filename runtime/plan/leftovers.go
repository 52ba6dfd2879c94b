// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// leftoverPatience is how long what has just ended may take to leave the cgroup of its pod: a
// runtime reaps beside its answers.
const leftoverPatience = 5 * time.Second

// MayKillLeftovers reports whether processes in the cgroup of a pod that has ended are killed: where its
// place could not be given back for a while, and the runtime has nothing of the pod that may have a
// process of its own. (kubelet cm/pod_container_manager_linux.go:Destroy)
func MayKillLeftovers(observed *PodStatus, failingFor time.Duration) bool {
	return failingFor >= leftoverPatience &&
		!slices.ContainsFunc(observed.Containers, func(c ContainerStatus) bool { return c.State == ContainerRunning || c.State == ContainerUnknown }) &&
		!slices.ContainsFunc(observed.Sandboxes, func(s SandboxStatus) bool { return s.State == SandboxReady })
}

// LeftoverKill begins the record of that kill: SIGKILL at once, as in the kubelet.
func LeftoverKill(message string) v1alpha1.KillRecord {
	return v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerProcessesLeft, RequestedBy: RequestedByShim, Message: message, StopSignal: "SIGKILL",
		Grace: v1alpha1.KillGrace{Source: v1alpha1.GraceSourceOverride},
	}
}
