// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

// Source is where the node's pods get their objects and tokens from.
type Source struct {
	*Store
	*Tokens
}
