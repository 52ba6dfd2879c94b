// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reconciles ManagedWorkloads: it decides which NodeWorkloads exist
// with which spec, what a deletion ends or lets go, and what the status says. It
// writes NodeWorkloads, the finalizer and the status of their ManagedWorkload, and
// events about it; that status has no other writer.
//
// A reconciliation gathers facts, decides, acts, and writes the status once. What is
// decided is pure and has a file of its own: decide in nodes.go, facts.go, status.go,
// conditions.go, objects.go, grace.go. What is done has others: create.go, update.go, end.go,
// adoption.go, delete.go. Events and metrics come after the write.
package workload
