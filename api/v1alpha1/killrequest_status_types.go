// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RequestPhase is how far a request, or a node or container of it, is.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Held;Succeeded;Failed
type RequestPhase string

// The phases of a request.
const (
	// RequestPending: nothing was done yet.
	RequestPending RequestPhase = "Pending"
	// RequestInProgress: something was done, or is about to be.
	RequestInProgress RequestPhase = "InProgress"
	// RequestHeld: it is stopped, until the request is deleted.
	RequestHeld RequestPhase = "Held"
	// RequestSucceeded: all is done.
	RequestSucceeded RequestPhase = "Succeeded"
	// RequestFailed: it is over, and not all was done.
	RequestFailed RequestPhase = "Failed"
)

// KillRequestStatus is what came of a KillRequest.
type KillRequestStatus struct {
	// phase is how far the request is. Held stays until the request is deleted.
	// +optional
	Phase RequestPhase `json:"phase,omitempty"`
	// message says more about the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// conditions are Complete, Failed and Held, for kubectl wait.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// nodes is how many nodes the request chooses.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// doneNodes is on how many all was done, held ones among them.
	// +optional
	DoneNodes int32 `json:"doneNodes,omitempty"`
	// failedNodes is on how many it has failed.
	// +optional
	FailedNodes int32 `json:"failedNodes,omitempty"`
	// startTime is when the manager began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the request was over: succeeded or failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// nodeStates are nodes, failed ones first, then those that are not done: 100 at most. The
	// first ones have their containers, as far as that takes up no more than 128 KiB. nodes, doneNodes
	// and failedNodes count all nodes, and NodeWorkloads have the rest.
	// +optional
	// +listType=map
	// +listMapKey=nodeName
	// +kubebuilder:validation:MaxItems=100
	NodeStates []RequestNodeState `json:"nodeStates,omitempty"`
}

// RequestNodeState is what came of a KillRequest on a node.
type RequestNodeState struct {
	// nodeName is the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// nodeWorkloadUID is the NodeWorkload that has the request, or had it. It is written
	// before the NodeWorkload gets the request; unset where none is to get it yet.
	// +optional
	NodeWorkloadUID types.UID `json:"nodeWorkloadUID,omitempty"`
	// phase is how far the request is on this node.
	// +required
	Phase RequestPhase `json:"phase"`
	// message says more about the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// containers are those of the request, 16 at most; none where the status is too large.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Containers []RequestContainerState `json:"containers,omitempty"`
}

// RequestContainerState is what came of a request for a container.
type RequestContainerState struct {
	// name is the name of the container.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// phase is how far the request is for this container.
	// +required
	Phase RequestPhase `json:"phase"`
	// message says more about the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// containerID is the instance that the request found, by the runtime's ID: no other is
	// killed for it, and none gets its signal.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ContainerID string `json:"containerID,omitempty"`
	// beginTime is when the request began with this container.
	// +optional
	BeginTime *metav1.Time `json:"beginTime,omitempty"`
}

// NodeRequestStatus is what a shim reports about a NodeRequest.
type NodeRequestStatus struct {
	// id is that of the NodeRequest.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// name is the name of the KillRequest.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// phase is how far the request is.
	// +required
	Phase RequestPhase `json:"phase"`
	// message says more about the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// containers are those of the request.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Containers []RequestContainerState `json:"containers,omitempty"`
}
