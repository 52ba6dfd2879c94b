// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides what a template means on a node: whether it runs
// there, may keep running, or must end, and what its NodeWorkload there is named.
// The manager and a preview ask the same question. It is pure: it reads the
// template and the Node it is given.
package placement
