// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodStatus is what the runtime reports about one pod, nothing inferred.
// (kubelet container/runtime.go:PodStatus)
type PodStatus struct {
	// ID, Name and Namespace identify the pod.
	ID, Name, Namespace string
	// IPs of the newest ready sandbox.
	IPs []string
	// Sandboxes, newest first.
	Sandboxes []SandboxStatus
	// Containers, newest first; the first of a name is the current one.
	Containers []ContainerStatus
	// ActiveContainerIDs are the containers of the newest sandbox.
	ActiveContainerIDs []string
	// Foreign are the containers that this shim does not manage in sandboxes of the pod that are ready.
	// Nothing is decided by them.
	Foreign []ForeignContainer
}

// ForeignContainer is a container that this shim did not create, in a sandbox that
// it did create.
type ForeignContainer struct {
	ID, Name, SandboxID string
}

// SandboxState is the state of a sandbox.
type SandboxState string

// The states of a sandbox.
const (
	SandboxReady    SandboxState = "READY"
	SandboxNotReady SandboxState = "NOTREADY"
)

// SandboxStatus is what the runtime reports about one sandbox.
type SandboxStatus struct {
	ID        string
	State     SandboxState
	Attempt   uint32
	CreatedAt time.Time
	// NetworkNamespace is the mode of the sandbox's network: POD, NODE, ... as CRI
	// names it.
	NetworkNamespace string
	// Network is nil when the runtime reported no network status.
	Network *SandboxNetwork
	// Hash is the pod definition the sandbox was created with (HashPod), empty if
	// it was not recorded.
	Hash string
}

// SandboxNetwork is the network status of a sandbox.
type SandboxNetwork struct {
	IP            string
	AdditionalIPs []string
}

// ContainerState is the state of a container in the runtime.
type ContainerState string

// The states of a container.
const (
	ContainerCreated ContainerState = "created"
	ContainerRunning ContainerState = "running"
	ContainerExited  ContainerState = "exited"
	ContainerUnknown ContainerState = "unknown"
)

// ContainerStatus is what the runtime reports about one container, and what was
// recorded with it at its creation.
type ContainerStatus struct {
	ID, Name string
	// PodUID is whose the container is by its labels, empty if they do not say or
	// this shim did not make it.
	PodUID     string
	SandboxID  string
	State      ContainerState
	ExitCode   int32
	Reason     string
	Message    string
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	Image      string
	ImageID    string
	ImageRef   string
	// Hash is the definition the container was created with (HashContainer),
	// empty if it was not recorded.
	Hash         string
	RestartCount int
	// StopSignal is the signal the runtime stops the container with, empty when
	// the runtime does not say.
	StopSignal string
	// Resources as the runtime has them; nil when it does not say.
	Resources *corev1.ResourceRequirements
	// User is the identity of the first process; nil when the runtime does not
	// say.
	User *corev1.ContainerUser
	// LogPath is the container's log on the node.
	LogPath string
	// Recorded is what the container's labels and annotations say.
	Recorded Recorded
}

// Recorded is what a kill needs when nothing but the container's labels and
// annotations is left. (kubelet kuberuntime/labels.go)
type Recorded struct {
	// TerminationGracePeriodSeconds of the pod at creation, nil if unset.
	TerminationGracePeriodSeconds *int64
	// DeletionGracePeriodSeconds of the pod at creation, nil if unset.
	DeletionGracePeriodSeconds *int64
	// PreStop is the hook at creation, nil if none.
	PreStop *corev1.LifecycleHandler
	// Ports are the container's ports at creation, for hooks that name one.
	Ports []corev1.ContainerPort
	// Place is where in its template the container stood; nil if that was not recorded.
	Place *Place
	// Resources the container was created with; nil if they were not recorded.
	Resources *Resources
	// RestartedAt is the value of AnnotationRestartedAt at creation.
	RestartedAt string
	// TerminationMessagePath and TerminationMessagePolicy of the container.
	TerminationMessagePath   string
	TerminationMessagePolicy corev1.TerminationMessagePolicy
}

// Place is where in a template a container stands.
type Place struct {
	// Index in the list of init containers or, if not Init, of main containers.
	Index int
	// Init and Sidecar say which kind of container it is; a sidecar is an init container, too.
	Init, Sidecar bool
}

// ProbeResult is the verdict of a probe.
type ProbeResult string

// The verdicts of a probe.
const (
	ProbeSuccess ProbeResult = "success"
	ProbeFailure ProbeResult = "failure"
	ProbeUnknown ProbeResult = "unknown"
)

// ProbeResults are the verdicts about one container; empty means that there is
// none.
type ProbeResults struct {
	Liveness, Readiness, Startup ProbeResult
}
