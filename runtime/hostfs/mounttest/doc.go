// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mounttest lets tests mount for real without a trace on the machine.
package mounttest
