// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ends collects how containers of a ManagedWorkload ended, on all its nodes: the
// kills that the shims recorded and the exits that no kill caused. It says in words who
// asked, which grace period there was and how it ended. It is pure.
package ends
