// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package writes is how the rooms of the manager write to the API server: whose a
// NodeWorkload is, patches and deletions that fail on an object that has changed
// since it was read, the request that precedes a deletion, which errors only mean
// that a cache is behind, and how long a text may be. It decides nothing about what
// runs, and touches only the NodeWorkload whose end is requested.
package writes
