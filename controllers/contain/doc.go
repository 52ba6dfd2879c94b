// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contain keeps panics of event handlers and predicates in the event that they
// are about. It touches nothing.
package contain
