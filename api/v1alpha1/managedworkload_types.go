// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedWorkload runs a group of containers on every node that its template
// matches, with the kubelet's lifecycle, and records who asked for every kill.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mw,categories=all
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredNodes`,description="Nodes that the template admits"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentNodes`,priority=1,description="Desired nodes that have a NodeWorkload"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`,description="Nodes that run the update revision"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyNodes`,description="Nodes on which all containers are ready"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableNodes`,priority=1,description="Nodes that have been ready for minReadySeconds"
// +kubebuilder:printcolumn:name="Misscheduled",type=integer,JSONPath=`.status.misscheduledNodes`,priority=1,description="Nodes that run the workload and should not"
// +kubebuilder:printcolumn:name="Drained",type=integer,JSONPath=`.status.drainedNodes`,priority=1,description="Nodes that a drain keeps from running the workload"
// +kubebuilder:printcolumn:name="Unreachable",type=integer,JSONPath=`.status.unreachableNodes`,priority=1,description="Nodes whose shim does not answer"
// +kubebuilder:printcolumn:name="Forced",type=integer,JSONPath=`.status.forcedKills`,description="Kills that the runtime had to force"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedWorkload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to run, and by its placement fields where.
	// +required
	Spec ManagedWorkloadSpec `json:"spec"`
	// status is what the nodes report, written by the manager.
	// +optional
	// +default={"observedGeneration": -1}
	Status ManagedWorkloadStatus `json:"status,omitzero"`
}

// ManagedWorkloadSpec is the desired state of a ManagedWorkload.
//
// +kubebuilder:validation:XValidation:rule="(has(self.minReadySeconds) ? self.minReadySeconds : 0) < (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600)",message="must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds"
type ManagedWorkloadSpec struct {
	// template is the Pod template that every matching node runs. A DaemonSet's
	// template can be pasted in. Placement is read from it as for a DaemonSet:
	// nodeSelector, nodeName, required node affinity and tolerations. A field
	// that the shim cannot honour is refused by its path in the condition
	// Accepted; docs/fields.md lists the three classes of fields. The annotation
	// kubectl.kubernetes.io/restartedAt in the template restarts the containers.
	// +required
	Template corev1.PodTemplateSpec `json:"template"`
	// restartBackoff is how long restarts of containers that keep exiting are put
	// off; unset means the kubelet's 10 s, doubled up to 300 s. The shim of a node may have a
	// minimum (10 s by default), which is used where this says less.
	// +optional
	RestartBackoff *RestartBackoff `json:"restartBackoff,omitempty"`
	// updateStrategy is how a changed template reaches the nodes; unset means a
	// RollingUpdate of one node at a time.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// paused keeps a changed template from nodes that do not have it yet. What runs is
	// not touched, and a node that is new gets the revision that was rolled out before.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// minReadySeconds is how long a node must have been ready to count as available;
	// unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// progressDeadlineSeconds is how long a roll-out may be without progress until
	// Stalled is True with the reason ProgressDeadlineExceeded; unset means 600. A paused
	// roll-out has no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// revisionHistoryLimit is how many revisions are kept that no node has; unset means
	// 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// ManagedWorkloadStatus is the observed state of a ManagedWorkload.
type ManagedWorkloadStatus struct {
	// observedGeneration is the generation of spec that this status is about;
	// -1 until the manager has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// desiredNodes is the number of nodes that the template admits.
	// +optional
	// +kubebuilder:default=0
	DesiredNodes int32 `json:"desiredNodes"`
	// currentNodes is the number of desired nodes that have a NodeWorkload.
	// +optional
	// +kubebuilder:default=0
	CurrentNodes int32 `json:"currentNodes"`
	// updatedNodes is the number of reachable desired nodes that run the update revision.
	// +optional
	// +kubebuilder:default=0
	UpdatedNodes int32 `json:"updatedNodes"`
	// readyNodes is the number of reachable desired nodes on which all containers are
	// ready, whatever their revision.
	// +optional
	// +kubebuilder:default=0
	ReadyNodes int32 `json:"readyNodes"`
	// availableNodes is the number of reachable desired nodes that have been ready for
	// minReadySeconds, whatever their revision.
	// +optional
	// +kubebuilder:default=0
	AvailableNodes int32 `json:"availableNodes"`
	// unavailableNodes is the number of desired nodes that are not available.
	// +optional
	// +kubebuilder:default=0
	UnavailableNodes int32 `json:"unavailableNodes"`
	// drainedNodes is the number of nodes that are not desired because they are drained of
	// this workload (kubectl mw drain).
	// +optional
	DrainedNodes int32 `json:"drainedNodes,omitempty"`
	// misscheduledNodes is the number of nodes that run the workload and should not, as
	// one does that got a taint with the effect NoSchedule after the start.
	// +optional
	// +kubebuilder:default=0
	MisscheduledNodes int32 `json:"misscheduledNodes"`
	// unreachableNodes is the number of desired nodes whose shim does not answer
	// or was never there; updated, ready and available do not count them.
	// +optional
	// +kubebuilder:default=0
	UnreachableNodes int32 `json:"unreachableNodes"`
	// forcedKills is the number of kills since the object exists that the runtime had
	// to force because the grace period was over. It only grows.
	// +optional
	// +kubebuilder:default=0
	ForcedKills int32 `json:"forcedKills"`
	// endedKills is the number of kills that have ended since the object exists, each attempt
	// that failed among them; recentKills shows the newest of them. It only grows.
	// +optional
	// +kubebuilder:default=0
	EndedKills int32 `json:"endedKills"`
	// currentRevision is the revision that was rolled out last, which nodes have that an
	// update has not reached: the label controller-revision-hash of its
	// ManagedWorkloadRevision and NodeWorkloads.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	CurrentRevision string `json:"currentRevision,omitempty"`
	// updateRevision is the revision of spec.template.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	UpdateRevision string `json:"updateRevision,omitempty"`
	// summary is one line for the STATUS column.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Summary string `json:"summary,omitempty"`
	// recentKills are the last kills on all nodes, newest first; of a kill that
	// fails again and again the last attempt. Where there are more, the node that has most
	// gives up its oldest: no node displaces what others report. They outlive the NodeWorkload
	// that reported them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	RecentKills []NodeKillRecord `json:"recentKills,omitempty"`
	// conditions are Ready, Reconciling and Stalled as kstatus defines them, and
	// Accepted with the reason of a refused template.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeKillRecord is a kill record with the node it happened on.
type NodeKillRecord struct {
	// nodeName is the node on which the container was killed.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`
	// nodeWorkload is the name of the NodeWorkload that reported the kill.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeWorkload string `json:"nodeWorkload"`
	// observedTime is when the manager first saw the record, by its own clock, where the
	// node's clock is more than a minute off, as the Lease of its shim shows, or the record
	// begins more than a minute from now. The order of recentKills goes by it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`\.[0-9]{6}`
	ObservedTime *metav1.MicroTime `json:"observedTime,omitempty"`

	KillRecord `json:",inline"`
}

// ManagedWorkloadList is a list of ManagedWorkloads.
//
// +kubebuilder:object:root=true
type ManagedWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ManagedWorkloads.
	Items []ManagedWorkload `json:"items"`
}
