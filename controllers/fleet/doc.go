// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet is what the nodes say: whether a node's shim responds, by its Lease,
// and which kills NodeWorkloads reported. Its reconciler looks at each NodeWorkload: it
// writes the condition ShimResponding, ends a NodeWorkload whose ManagedWorkload is
// gone, and releases one whose node is lost. It touches NodeWorkloads alone; Leases and
// Nodes are only read.
package fleet
