// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror makes and deletes the mirrors of static workloads as the shims of their nodes
// report them. A report may be that of a node that was taken over: the package decides which mirrors a
// node may have, in which namespaces and how many. It decides nothing about what runs, and touches only
// NodeWorkloads that are mirrors of the node whose shim asks, and events about that Node.
package mirror
