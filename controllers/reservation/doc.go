// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation makes the scheduler and the kubelet count what NodeWorkloads request. Each
// node has a Pod that does nothing; what it requests is kept at the sum of what the
// NodeWorkloads of its node request, by in-place resize (docs/adr/0014).
//
// It decides how much that is, and which NodeWorkloads have it: the oldest first. It touches the
// subresource resize of Pods in the manager's own namespace, and the condition Reserved of
// NodeWorkloads. It starts and ends nothing.
package reservation
