// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror makes and deletes the mirrors of static workloads as the shims of their nodes
// report them. It decides nothing about what runs, and touches only NodeWorkloads that are
// mirrors of the node whose shim asks.
package mirror
