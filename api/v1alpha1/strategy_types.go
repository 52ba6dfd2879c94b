// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// UpdateStrategyType says how a changed template reaches nodes that run another one.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
type UpdateStrategyType string

// Types of an UpdateStrategy, as a DaemonSet has them.
const (
	// RollingUpdateStrategyType changes nodes by themselves, within the budget.
	RollingUpdateStrategyType UpdateStrategyType = "RollingUpdate"
	// OnDeleteStrategyType changes a node when its NodeWorkload is deleted.
	OnDeleteStrategyType UpdateStrategyType = "OnDelete"
)

// UpdateStrategy is how a changed template reaches the nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || self.type == 'RollingUpdate'",message="may only be set when type is RollingUpdate",fieldPath=".rollingUpdate"
type UpdateStrategy struct {
	// type is RollingUpdate or OnDelete; unset means RollingUpdate.
	// +optional
	Type UpdateStrategyType `json:"type,omitempty"`
	// rollingUpdate bounds a rolling update.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate bounds a rolling update.
type RollingUpdate struct {
	// maxUnavailable is how many of the nodes that should run the workload may be
	// unavailable because of an update: a number, or a percentage of them, rounded up.
	// Nodes that are unavailable for another reason count. Unset means 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 1 : string(self).matches('^(100|[1-9][0-9]?)%$')",message="must be a number of nodes of at least 1, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// partition is how many of the nodes that should run the workload stay on the revision
	// that was rolled out before. Which ones does not depend on the revision, so that a
	// lower partition only adds nodes to the update. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`
	// nodeSelector are labels that a node must have to be updated (a canary); the others
	// stay on the revision that was rolled out before. Unset means all nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}
