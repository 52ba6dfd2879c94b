// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which nodes get which revision of a ManagedWorkload next, and
// why the others wait. It is pure: revisions, facts about nodes, a strategy and a time go
// in, the next batch comes out. It keeps no state and touches nothing.
//
// A node counts against the budget while it is unavailable, and from the moment it gets
// another revision until it is available with that one. The second half matters because
// a shim pulls before it kills: a node that waits for an image still runs its old
// containers, and a bad image would pass from node to node.
package rollout
