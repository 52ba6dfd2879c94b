// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Input is everything that a decision about one pod depends on.
type Input struct {
	// Pod is the desired state. Compute is for a pod that is being synced: for
	// one that terminates the worker kills and does not ask.
	Pod *corev1.Pod
	// Previous is the desired state before, nil if it is not known. It decides nothing:
	// kills say what has changed since.
	Previous *corev1.Pod
	// Observed is what the runtime reports.
	Observed *PodStatus
	// Probes are the verdicts by container ID.
	Probes map[string]ProbeResults
	// Definitions are what the pod's sandbox and containers should have been
	// made from; nil when that is not known, and then nothing has changed.
	Definitions *Definitions
	// Unconfirmed: Pod is what an earlier process wrote down, and the API server has not
	// shown the object since. What runs may be newer: nothing is killed for a difference.
	Unconfirmed bool
	// Actuated is what running containers were given since their creation, by
	// container ID.
	Actuated map[string]Resources
	// RestartAllContainers is whether every container is to be removed and the
	// pod started over in the same sandbox (ShouldAllContainersRestart).
	RestartAllContainers bool
	// Images are those that the runtime was asked for; nil when it was not asked.
	// They change nothing but what the starts do about theirs.
	Images Images
	// Prepared is what has become of the images that deliberate changes need. One that
	// is not in it is not there.
	Prepared map[ImageKey]Preparation
	// Missing are the objects and tokens that Pod refers to and that are not there.
	Missing []Missing
	// Probed is the pod whose probes gave the verdicts, nil if it is Pod (ProbedPod).
	Probed *corev1.Pod
	// OutsideCgroup: the pod's cgroup is gone, and all running containers are proved
	// to run outside of it. Any doubt is false.
	OutsideCgroup bool
	// Asked is what KillRequests ask, by container.
	Asked map[string]Asked
	// Owed are containers that were ended on request or for a change and are to run again.
	Owed Owed
	// UnderWay names the containers whose kill, or the start after it, is under way: they are left
	// alone.
	UnderWay map[string]bool
	// Exits are how containers ended whose instance the runtime may have lost.
	Exits Exits
	// Differences from the kubelet.
	Differences Differences
}

// Actions is what has to happen, in the order of the fields. When KillPod is
// set, ContainersToKill is not carried out. Indices are those of the pod's
// spec. (kubelet kuberuntime_manager.go:podActions)
type Actions struct {
	// KillPod: every running container is killed and every sandbox stopped.
	KillPod bool
	// Trigger and Message say why, for the record and the log; they are set
	// with KillPod only.
	Trigger v1alpha1.KillTrigger
	Message string
	// Redefined: the pod is killed because its definition, or its network mode, changed.
	Redefined bool
	// CreateSandbox: a new sandbox is created, with number Attempt.
	CreateSandbox bool
	// SandboxID is the sandbox the containers are in, or the one that is
	// replaced; empty if there is none, or if its network mode differs.
	SandboxID string
	Attempt   uint32
	// ContainersToKill, init containers first, then containers, each as in the
	// spec, then second instances, those of an earlier sandbox and those that the spec
	// does not name.
	ContainersToKill []Kill
	// ContainersToReset are removed, killed before if Kill says so; nothing else
	// is done in that sync.
	ContainersToReset []Reset
	// What is started, each in start order.
	EphemeralContainersToStart []int
	InitContainersToStart      []int
	ContainersToStart          []int
	// Images are what these starts do about their images, as far as it is known
	// (Input.Images).
	Images []ImageNeed
	// Waits are the images that deliberate changes wait for, also where something else
	// kills the pod meanwhile.
	Waits []ImageWait
	// MissingWaits are the objects and tokens that deliberate changes wait for, likewise.
	MissingWaits []Missing
	// Kept are the running containers that these changes would replace; what is not
	// deliberate may still kill them. Held do not run, and their start waits.
	Kept []string
	Held []HeldStart
	// KeepsSandbox: the whole sandbox waits to be replaced.
	KeepsSandbox bool
	// MemoryToUpdate and CPUToUpdate are the containers that get other resources
	// while they run, decreases first; before main containers start.
	MemoryToUpdate, CPUToUpdate []ResourceUpdate
	// UpdatePodResources: a container is killed for a resize, so that the pod's
	// own limits change.
	UpdatePodResources bool
}

// Resizes is whether resources change, of containers that run or of the pod.
func (a *Actions) Resizes() bool {
	return len(a.MemoryToUpdate)+len(a.CPUToUpdate) > 0 || a.UpdatePodResources
}

// Reset is one container to be removed so that the pod starts over.
type Reset struct {
	// ID and Name of the container.
	ID, Name string
	// Kill comes first, because the container may still run; nil if it has exited.
	Kill *Kill
}
