// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers is the manager: it turns each ManagedWorkload into one
// NodeWorkload on every node that the template admits, and reports what the
// nodes say.
//
//	ManagedWorkload --placement--> NodeWorkloads --shims--> their status
//	       ^                                                     |
//	       +------ counts, conditions, recent kills, events -----+
//
// What is decided is pure and has a file of its own (names.go, status.go,
// kills.go, grace.go) or, where a preview asks the same, a package in api; the
// reconcilers gather facts, carry decisions out, and write each status once.
package controllers
