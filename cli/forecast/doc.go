// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forecast says what a changed ManagedWorkload would do to its nodes: what it would
// kill, in which batches, with which grace period, and which nodes would wait and why. It is
// pure, and decides nothing itself: it asks rollout for batches, placement for nodes and
// preview for kills, and assumes that every node becomes available.
package forecast
