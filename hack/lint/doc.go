// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint holds the tests over the source that no linter has: decisions
// about kills stand in runtime/plan, goroutines contain their panics, and every
// package says in doc.go what it decides and may touch.
package lint
