// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import corev1 "k8s.io/api/core/v1"

// The priority classes of what a cluster and its nodes cannot do without. Every cluster has them.
const (
	NodeCriticalClass    = "system-node-critical"
	ClusterCriticalClass = "system-cluster-critical"
)

// IsNodeCritical returns whether a node cannot do without a pod. The name of its class says so
// alone: a Pod of that class has its number, and a static one counts without a number.
// (kubelet types/pod_update.go:IsNodeCriticalPod)
func IsNodeCritical(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName == NodeCriticalClass
}
