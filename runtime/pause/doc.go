// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pause is the process of the Pod that reserves what a shim runs: it waits until it is
// asked to end, and does nothing else. It decides nothing and touches nothing.
package pause
