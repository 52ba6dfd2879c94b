// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedWorkloadRevision keeps a template of a ManagedWorkload as the API server admitted
// it and as its user wrote it. The manager makes it once and never changes the templates
// in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mwr
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Rolled-Out",type=boolean,JSONPath=`.spec.rolledOut`,description="Every node was available with it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedWorkloadRevision struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +required
	Spec ManagedWorkloadRevisionSpec `json:"spec"`
}

// ManagedWorkloadRevisionSpec is a template in both of its forms.
type ManagedWorkloadRevisionSpec struct {
	// revision counts the roll-outs of the ManagedWorkload, from 1 on. A template that is
	// rolled out again gets the next number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`
	// template is the admitted one, which nodes run.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template corev1.PodTemplateSpec `json:"template"`
	// userPatch is the JSON Patch (RFC 6902) that makes the user's template, with its
	// defaults filled in, out of template; empty when admission changed nothing.
	// +optional
	UserPatch string `json:"userPatch,omitempty"`
	// rolledOut: all nodes whose shim responded were available with it at one time since
	// it got its number. Of those the one with the highest number is what nodes have that
	// an update has not reached.
	// +optional
	RolledOut bool `json:"rolledOut,omitempty"`
}

// ManagedWorkloadRevisionList is a list of ManagedWorkloadRevisions.
//
// +kubebuilder:object:root=true
type ManagedWorkloadRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ManagedWorkloadRevisions.
	Items []ManagedWorkloadRevision `json:"items"`
}
