// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KillRequest asks for the restart of containers of a ManagedWorkload on chosen nodes, for a
// signal to them, or that they are stopped and stay so until the request is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=kr,categories=all
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a KillRequest may have 63 characters"
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.workloadName`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes that the request chooses"
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.doneNodes`,description="Nodes on which all was done"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failedNodes`
// +kubebuilder:printcolumn:name="Requested-By",type=string,JSONPath=`.spec.requestedBy`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KillRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for. It is immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable; make another KillRequest"
	Spec KillRequestSpec `json:"spec"`
	// status is what came of it, written by the manager.
	// +optional
	Status KillRequestStatus `json:"status,omitzero"`
}

// RequestAction is what a KillRequest asks for.
//
// +kubebuilder:validation:Enum=Restart;Signal;Stop
type RequestAction string

// The actions of a KillRequest.
const (
	// RequestRestart kills each container that runs, and another instance is started.
	RequestRestart RequestAction = "Restart"
	// RequestSignal sends a signal to the first process of each container, and kills nothing.
	RequestSignal RequestAction = "Signal"
	// RequestStop kills each container that runs, and none is started until the request is
	// deleted.
	RequestStop RequestAction = "Stop"
)

// RequestOrder is in which order nodes are served.
//
// +kubebuilder:validation:Enum=Parallel;Ordered;RollOut
type RequestOrder string

// The orders of a KillRequest.
const (
	// RequestParallel serves all nodes at once.
	RequestParallel RequestOrder = "Parallel"
	// RequestOrdered serves one node after another, by name.
	RequestOrdered RequestOrder = "Ordered"
	// RequestRollOut serves nodes within maxUnavailable of the ManagedWorkload, as a roll-out
	// does: those that are unavailable first.
	RequestRollOut RequestOrder = "RollOut"
)

// RequestFailurePolicy is what happens after a failure.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type RequestFailurePolicy string

// The failure policies of a KillRequest.
const (
	// RequestFail begins with no further container and no further node.
	RequestFail RequestFailurePolicy = "Fail"
	// RequestIgnore continues with the others.
	RequestIgnore RequestFailurePolicy = "Ignore"
)

// KillRequestSpec is what a KillRequest asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.signal) == (self.action == 'Signal')",message="must be set when action is Signal, and only then",fieldPath=".signal"
// +kubebuilder:validation:XValidation:rule="!has(self.order) || self.order != 'RollOut' || self.action == 'Restart'",message="may be RollOut only when action is Restart",fieldPath=".order"
// +kubebuilder:validation:XValidation:rule="!has(self.precondition) || !has(self.precondition.containerID) || has(self.containers) && size(self.containers) == 1 && has(self.nodes.names) && size(self.nodes.names) == 1 && !has(self.nodes.selector)",message="may be set only for one container on one node, both by name",fieldPath=".precondition.containerID"
type KillRequestSpec struct {
	// workloadName is the ManagedWorkload, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must be one line without control characters and without characters that change the direction of text"
	WorkloadName string `json:"workloadName"`
	// nodes are those that the request is about, of those that run the workload.
	// +required
	Nodes RequestNodes `json:"nodes"`
	// containers are names of main containers and sidecars; unset means all main containers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Containers []string `json:"containers,omitempty"`
	// action is Restart, Signal or Stop.
	// +required
	Action RequestAction `json:"action"`
	// signal is what action Signal sends.
	// +optional
	// +kubebuilder:validation:Enum=SIGHUP;SIGINT;SIGQUIT;SIGUSR1;SIGUSR2;SIGALRM;SIGTERM;SIGCONT;SIGWINCH
	Signal string `json:"signal,omitempty"`
	// reason is why, for the kill records and for people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must be one line without control characters and without characters that change the direction of text"
	Reason string `json:"reason,omitempty"`
	// requestedBy is the user who made the request: the API server's admission sets it where
	// it is empty, and refuses another name.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must be one line without control characters and without characters that change the direction of text"
	RequestedBy string `json:"requestedBy,omitempty"`
	// precondition must hold on a node, or nothing is done there.
	// +optional
	Precondition *RequestPrecondition `json:"precondition,omitempty"`
	// order is that of the nodes; unset means Parallel.
	// +optional
	Order RequestOrder `json:"order,omitempty"`
	// failurePolicy is what happens after a container or a node has failed; unset means Fail.
	// +optional
	FailurePolicy RequestFailurePolicy `json:"failurePolicy,omitempty"`
	// orderedRecreate: on a node, the next container waits until the one before is done.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`
	// forceRecreate: a container that is starting is not waited for, and one that waits for its
	// restart (CrashLoopBackOff) is started at once.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`
	// terminationGracePeriodSeconds is the grace period of the kills; unset means that of the
	// template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// unreadyGracePeriodSeconds is how long the NodeWorkload is not Ready before a container is
	// killed, so that what follows the condition stops sending requests.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	UnreadyGracePeriodSeconds int64 `json:"unreadyGracePeriodSeconds,omitempty"`
	// minStartedSeconds is how long a new instance must have run, and be ready, for the restart
	// to count as done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
	// activeDeadlineSeconds is how long after its creation the request may begin kills and wait
	// for their end: then it has failed where it is not done. Unset means no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// ttlSecondsAfterFinished is how long after its completion the request is deleted; unset
	// means never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// dryRun: nothing is done, and the status says what would be.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// RequestNodes chooses nodes: by name, by labels, or all.
//
// +kubebuilder:validation:XValidation:rule="(has(self.all) && self.all) != (has(self.names) || has(self.selector))",message="either all, or names or a selector must be set"
type RequestNodes struct {
	// all: every node that runs the workload when the request is made; with action Stop, those
	// that come later, too.
	// +optional
	All bool `json:"all,omitempty"`
	// names are names of nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Names []string `json:"names,omitempty"`
	// selector are labels of nodes, beside those named.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// What the selector of a KillRequest may have at most: MaxSelector labels, as many requirements and as many values of
// each; characters of a key and of a value.
const (
	MaxSelector   = 64
	MaxLabelKey   = 317
	MaxLabelValue = 63
)

// RequestPrecondition is what must hold on a node.
//
// +kubebuilder:validation:MinProperties=1
type RequestPrecondition struct {
	// containerID is the instance that the container must be, as its status has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must be one line without control characters and without characters that change the direction of text"
	ContainerID string `json:"containerID,omitempty"`
	// revision is what the node must run: the label controller-revision-hash.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]')`,message="must be one line without control characters and without characters that change the direction of text"
	Revision string `json:"revision,omitempty"`
}

// NodeRequest is a KillRequest as the shim of a node gets it.
type NodeRequest struct {
	// id is the UID of the KillRequest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// name is the name of the KillRequest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// action is Restart, Signal or Stop.
	// +required
	Action RequestAction `json:"action"`
	// containers are names; unset means all main containers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Containers []string `json:"containers,omitempty"`
	// signal is what action Signal sends.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Signal string `json:"signal,omitempty"`
	// requestedBy is who made the KillRequest.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	RequestedBy string `json:"requestedBy,omitempty"`
	// reason is that of the KillRequest.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// containerID is the instance that the container must be.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ContainerID string `json:"containerID,omitempty"`
	// templateHash identifies the template that must run.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash,omitempty"`
	// ignoreFailures: the other containers follow after one has failed.
	// +optional
	IgnoreFailures bool `json:"ignoreFailures,omitempty"`
	// ordered: the next container waits until the one before is done.
	// +optional
	Ordered bool `json:"ordered,omitempty"`
	// force: a container that is starting is not waited for, and no back-off counts.
	// +optional
	Force bool `json:"force,omitempty"`
	// gracePeriodSeconds is the grace period of the kills; unset means that of the template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	// unreadySeconds is how long the workload is not Ready before a container is killed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadySeconds int64 `json:"unreadySeconds,omitempty"`
	// minStartedSeconds is how long a new instance must have run.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
	// deadline is until when kills may begin.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// dryRun: nothing is done.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// KillRequestList is a list of KillRequests.
//
// +kubebuilder:object:root=true
type KillRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the KillRequests.
	Items []KillRequest `json:"items"`
}
