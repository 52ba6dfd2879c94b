// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shim is the API side of a node and wires the rest: it hands the node's
// NodeWorkloads to their workers, publishes their status, renews the node's Lease,
// and decides about pods on the runtime that no NodeWorkload stands for. It is the
// only package of the runtime that talks to the API server.
package shim
