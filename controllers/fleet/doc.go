// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet is what the nodes say, and all that the manager remembers of it: a Share of
// each NodeWorkload in an Index, the Nodes, the Leases by which a shim responds, and the
// kills that NodeWorkloads reported. Index, Nodes, Shims and Ledger are the owners of that,
// each fed by one watch, in order. The Index also decides whose turn it is to use up what
// maxUnavailable leaves.
//
// Its reconciler looks at each NodeWorkload: it writes the condition ShimResponding, ends a
// NodeWorkload whose ManagedWorkload is gone, and releases one whose node is lost. It
// touches NodeWorkloads alone; Leases and Nodes are only read.
package fleet
