// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informers bounds how long informers wait before they retry a list or watch that failed: client-go's reflectors
// wait for up to a minute, and a deletion with them. It keeps no state.
package informers
