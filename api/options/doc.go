// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options has the flags that the manager and the shim share, with one help
// text and one check. It touches nothing.
package options
