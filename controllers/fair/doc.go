// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fair is the queue of the manager's controllers: it lets namespaces take turns. It
// touches nothing.
package fair
