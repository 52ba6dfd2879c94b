// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor carries starts and kills out. It decides nothing that the
// plan can decide: what is to be done comes in as plan.Actions, what became of
// it goes out as results, events and kill records.
//
// A kill goes one way through its phases; each of them ends early when the
// grace period is shortened while it is under way (Shorten):
//
//	 begin ──> PreStop ──────> WaitingForTurn ──> Stopping ──────> Done
//	record    the hook runs,   a sidecar waits    StopContainer    outcome,
//	written,  cancelled when   for those that     with what is     record
//	Killing   its time is      end before it      left, 2 s at     completed
//	event     over                                least
//
// The kubelet's counterpart is pkg/kubelet/kuberuntime.
package executor
