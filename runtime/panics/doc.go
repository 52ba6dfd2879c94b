// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package panics keeps a panic in the part where it happens: the other parts, and
// above all the kills under way, continue.
package panics
