// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefile writes the files in which the shim remembers something: whole
// or not at all, and on the disk before the call returns.
package statefile
