// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// RestartBackoff is how long the restart of a container that keeps exiting is put
// off (CrashLoopBackOff). A change takes effect at the next restart, and on a
// wait under way if it became shorter.
//
// +kubebuilder:validation:XValidation:rule="!has(self.baseSeconds) || !has(self.maxSeconds) || self.baseSeconds <= self.maxSeconds",message="baseSeconds may not exceed maxSeconds",fieldPath=".baseSeconds"
type RestartBackoff struct {
	// baseSeconds is the first wait, doubled with every restart; unset means 10,
	// or maxSeconds if that is less.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	BaseSeconds *int32 `json:"baseSeconds,omitempty"`
	// maxSeconds is the longest wait; unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	MaxSeconds *int32 `json:"maxSeconds,omitempty"`
}
