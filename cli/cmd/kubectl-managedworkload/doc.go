// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-managedworkload is the kubectl plugin. As kubectl-mw it is the same.
package main
