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
// This package wires the rooms to one controller-runtime manager: the client, the
// cache and what it keeps, the recorder of events, leader election. It decides
// nothing. workload reconciles ManagedWorkloads and asks admission and fleet; fleet
// reconciles NodeWorkloads; writes holds how both write.
package controllers
