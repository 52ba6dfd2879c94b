// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package writes is how the rooms of the manager write to the API server: whose a
// NodeWorkload is, changes of objects that are known only in part, which fail on an object
// that has changed since it was read, which errors only mean that a cache is behind, and
// how long a text may be. It decides nothing, and touches only what it is asked to change.
package writes
