// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads the workloads that people write into files: one NodeWorkload, or
// what a ManagedWorkload becomes on a node. It decides what such a file may say, as far as
// the API server would, and touches nothing.
package manifest
