// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the kubectl plugin: kubectl managedworkload, kubectl mw. It reads
// ManagedWorkloads and what belongs to them with the user's own rights, and changes
// nothing but the ManagedWorkload that a command names. What the output says is decided
// in the pure packages below (ends, timeline, forecast, convert).
package cli
