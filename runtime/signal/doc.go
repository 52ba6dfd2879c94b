// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signal sends a signal to the first process of a container. It decides whether the
// process that the runtime names is still that container's; in doubt nothing is sent. It
// touches nothing but that process.
package signal
