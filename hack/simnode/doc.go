// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simnode simulates what runs of a NodeWorkload on a node, for benches of whole
// fleets. It decides, from the NodeWorkload and the time, what a container runtime would
// show; runtime/status makes the report of it, as it does in a shim. It touches nothing.
package simnode
