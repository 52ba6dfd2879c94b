// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of what the shim of one node may post.
const (
	// MaxNodeUsageWorkloads and MaxUsageContainers are how many workloads, and containers of each, it may name.
	MaxNodeUsageWorkloads = 500
	MaxUsageContainers    = 100
)

// NodeUsage is what a node and its NodeWorkloads use. Its name is that of the node. The shim of the
// node posts it each minute; what is read says nothing of single workloads.
// +kubebuilder:object:root=true
type NodeUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Timestamp is when it was measured, by the node's clock.
	Timestamp metav1.Time `json:"timestamp"`
	// Window is the time over which CPU was measured.
	Window metav1.Duration `json:"window"`
	// Usage of the whole node: cpu and memory.
	Usage corev1.ResourceList `json:"usage"`
	// Managed is what its NodeWorkloads use together. The manager adds it up.
	Managed corev1.ResourceList `json:"managed,omitempty"`
	// Workloads are the NodeWorkloads of the node. They are posted, and read as WorkloadUsages.
	Workloads []WorkloadUsage `json:"workloads,omitempty"`
}

// NodeUsageList is a list of NodeUsages.
// +kubebuilder:object:root=true
type NodeUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeUsage `json:"items"`
}

// WorkloadUsage is what a NodeWorkload uses. Its namespace and name are those of the NodeWorkload.
// +kubebuilder:object:root=true
type WorkloadUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// NodeName is the node on which it runs. The manager fills it in.
	NodeName string `json:"nodeName,omitempty"`
	// WorkloadName is the name of its ManagedWorkload. The manager fills it in.
	WorkloadName string `json:"workloadName,omitempty"`
	// Timestamp is when it was measured, by the node's clock.
	Timestamp metav1.Time `json:"timestamp"`
	// Window is the time over which CPU was measured.
	Window metav1.Duration `json:"window"`
	// Usage of the whole workload with its sandbox: cpu, memory, and as ephemeral-storage what its
	// containers have written into their root file systems.
	Usage corev1.ResourceList `json:"usage"`
	// Containers that run.
	Containers []ContainerUsage `json:"containers"`
}

// ContainerUsage is what a container uses.
type ContainerUsage struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage"`
}

// WorkloadUsageList is a list of WorkloadUsages.
// +kubebuilder:object:root=true
type WorkloadUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadUsage `json:"items"`
}
