// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Workload is a NodeWorkload with the template that it stands for.
type Workload struct {
	v1alpha1.NodeWorkload `json:",inline"`
	// Template is what the node runs. It is not changed.
	Template *corev1.PodTemplateSpec `json:"template"`
}

// DeepCopy returns a copy of it, nil for nil.
func (w *Workload) DeepCopy() *Workload {
	if w == nil {
		return nil
	}
	return &Workload{*w.NodeWorkload.DeepCopy(), w.Template.DeepCopy()}
}

// Of returns a Workload that shares nw's data.
func Of(nw *v1alpha1.NodeWorkload) *Workload {
	return &Workload{*nw, &nw.Spec.Template}
}
