// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostfs touches the node's files and mounts for the packages that keep
// pods on it. It follows no symbolic link out of where it was sent, removes
// nothing behind a mount, undoes no mount of the node, and waits for no file
// system without a bound.
package hostfs
