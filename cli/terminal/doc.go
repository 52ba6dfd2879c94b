// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal writes text for people: colours only where they were asked for, and
// no control character that a name, a message or an error of a cluster brings along.
package terminal
