// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status says what is: from the desired pod and the observations of the
// runtime it computes the status that the kubelet would report for a Pod, the
// line that kubectl would print, and the status of a NodeWorkload.
//
//	plan.PodStatus --Compute--> corev1.PodStatus --NodeWorkload--> v1alpha1.NodeWorkloadStatus
//	                                ^                                        |
//	                                +--------------PodStatus-----------------+
//
// It is pure: time, probe verdicts and start failures come in as values.
package status
