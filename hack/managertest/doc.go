// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package managertest makes the objects that tests of the manager's rooms share.
package managertest
