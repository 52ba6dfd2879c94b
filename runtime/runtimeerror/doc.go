// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtimeerror reads the errors of the container runtime: their gRPC
// codes and texts, whatever was wrapped around them on the way. An error without
// a code has none, even if its text says "not found".
package runtimeerror
