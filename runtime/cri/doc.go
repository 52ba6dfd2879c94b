// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cri is the only package that knows the container runtime interface
// (CRI v1). It observes pods and containers for the plan, acts on sandboxes,
// containers and images, and keeps what a kill needs in labels and annotations.
// It decides no start and no kill; it touches the CRI socket, and on the node only
// what the runtime points it to (termination messages, logs).
//
// Every error of the runtime is wrapped with what was asked of it and keeps its
// gRPC status; package runtimeerror reads it.
package cri
