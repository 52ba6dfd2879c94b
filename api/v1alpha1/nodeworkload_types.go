// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeWorkload is the share of a ManagedWorkload that one node runs. The manager
// writes its spec, the shim of that node its status.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=nw,categories=all
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Ready containers of all containers"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.restarts`
// +kubebuilder:printcolumn:name="Last-Kill",type=date,JSONPath=`.status.kills[0].startTime`,description="How long ago the last kill began"
// +kubebuilder:printcolumn:name="Killed",type=string,JSONPath=`.status.kills[0].container`,priority=1,description="Container of the last kill"
// +kubebuilder:printcolumn:name="How",type=string,JSONPath=`.status.kills[0].summary`,priority=1,description="Why and how the last kill went"
// +kubebuilder:printcolumn:name="Reserved",type=string,JSONPath=`.status.conditions[?(@.type=="Reserved")].status`,priority=1,description="Whether the scheduler and the kubelet count what it requests"
// +kubebuilder:printcolumn:name="Last-Exit",type=string,JSONPath=`.status.lastExit.summary`,priority=1,description="The last exit that no kill of the shim caused"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeWorkload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the node runs.
	// +required
	Spec NodeWorkloadSpec `json:"spec"`
	// status is what the node's shim reports.
	// +optional
	// +default={"observedGeneration": -1}
	Status NodeWorkloadStatus `json:"status,omitzero"`
}

// NodeWorkloadSpec is the desired state of a NodeWorkload.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.deletionGracePeriodSeconds) || has(self.deletionGracePeriodSeconds)",message="deletionGracePeriodSeconds may not be removed once it is set",fieldPath=".deletionGracePeriodSeconds"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.deletionGracePeriodSeconds) || !has(self.deletionGracePeriodSeconds) || self.deletionGracePeriodSeconds <= oldSelf.deletionGracePeriodSeconds",message="deletionGracePeriodSeconds may only shrink",fieldPath=".deletionGracePeriodSeconds"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.deletionGracePeriodSeconds) || !has(self.deletionGracePeriodSeconds) || self.deletionGracePeriodSeconds <= (has(oldSelf.template.spec) && has(oldSelf.template.spec.terminationGracePeriodSeconds) ? oldSelf.template.spec.terminationGracePeriodSeconds : 30)",message="deletionGracePeriodSeconds may only shrink: it is longer than the template's terminationGracePeriodSeconds",fieldPath=".deletionGracePeriodSeconds"
type NodeWorkloadSpec struct {
	// nodeName is the node whose shim runs the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName is immutable"
	NodeName string `json:"nodeName"`
	// template is the Pod template with its defaults filled in.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`
	// deletionGracePeriodSeconds is the grace period of the termination once this
	// object is being deleted; unset means the template's own
	// terminationGracePeriodSeconds. It may only shrink; a smaller value takes
	// effect on a termination that is under way. 0 counts as 1, as in the kubelet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeletionGracePeriodSeconds *int64 `json:"deletionGracePeriodSeconds,omitempty"`
	// restartBackoff is that of the ManagedWorkload.
	// +optional
	RestartBackoff *RestartBackoff `json:"restartBackoff,omitempty"`
	// requests are the KillRequests that this node carries out. They belong to no revision.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	Requests []NodeRequest `json:"requests,omitempty"`
}

// NodeWorkloadStatus is the observed state of a NodeWorkload.
type NodeWorkloadStatus struct {
	// observedGeneration is the generation of spec that this status is about;
	// -1 until the shim has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// templateHash identifies the template that runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash,omitempty"`
	// phase is the Pod phase.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`
	// reason is a short CamelCase reason of the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// message says more about the reason.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// summary is what kubectl shows in STATUS for a Pod: Running,
	// CrashLoopBackOff, Terminating, Init:0/2 and so on; while a change waits for an
	// image, also why ("Running, waiting: ImagePullBackOff").
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Summary string `json:"summary,omitempty"`
	// ready is "ready containers/all containers", as kubectl shows for a Pod.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Ready string `json:"ready,omitempty"`
	// restarts is the sum of all restart counts, as kubectl shows for a Pod.
	// +optional
	// +kubebuilder:default=0
	Restarts int32 `json:"restarts"`
	// podIPs are the addresses of the sandbox.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PodIPs []string `json:"podIPs,omitempty"`
	// hostIPs are the addresses of the node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	HostIPs []string `json:"hostIPs,omitempty"`
	// qosClass is the quality of service class of the template.
	// +optional
	QOSClass corev1.PodQOSClass `json:"qosClass,omitempty"`
	// startTime is when the shim first saw the object.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// conditions are those of a Pod (PodReadyToStartContainers, Initialized,
	// ContainersReady, Ready), of this shim, and ShimResponding, the only one the
	// manager writes.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// initContainerStatuses are the init containers, sidecars among them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	InitContainerStatuses []corev1.ContainerStatus `json:"initContainerStatuses,omitempty"`
	// containerStatuses are the main containers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	ContainerStatuses []corev1.ContainerStatus `json:"containerStatuses,omitempty"`
	// kills are the kill records: those under way, then the others, each newest
	// first by sequence; 10 in all, and the newest of each container and of each trigger
	// in any case. Events and metrics have the rest.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Kills []KillRecord `json:"kills,omitempty"`
	// killCount is the number of kills that have begun since the object exists,
	// each attempt at one that failed among them.
	// +optional
	// +kubebuilder:default=0
	KillCount int64 `json:"killCount"`
	// lastExit is the last end of a container that no kill of the shim caused; kills
	// has the others. An init container that succeeded is not one.
	// +optional
	LastExit *ContainerExit `json:"lastExit,omitempty"`
	// requests are what came of those of spec.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	Requests []NodeRequestStatus `json:"requests,omitempty"`
}

// ContainerExit is the end of a container that no kill of the shim caused: a crash,
// an OOM kill, a signal from outside, or the end of its work.
type ContainerExit struct {
	// container is the name of the container.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`
	// containerID is the ID of the instance, as in its container status.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ContainerID string `json:"containerID,omitempty"`
	// exitCode is its exit code; above 128, that of a signal.
	// +required
	ExitCode int32 `json:"exitCode"`
	// reason is the runtime's reason, such as OOMKilled.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// summary is the exit in a few words: "exit 3", "OOMKilled (137)".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Summary string `json:"summary,omitempty"`
	// finishTime is when it ended, by the runtime's clock.
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
}

// NodeWorkloadList is a list of NodeWorkloads.
//
// +kubebuilder:object:root=true
type NodeWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the NodeWorkloads.
	Items []NodeWorkload `json:"items"`
}
