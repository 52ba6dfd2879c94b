// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror says how a shim reports the workloads that it runs from files, and which
// object the manager makes for each, so that people see them in the API. A mirror runs nothing.
// It decides names and content, and touches nothing.
package mirror
