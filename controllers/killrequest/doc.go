// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package killrequest decides which nodes a KillRequest is about, which of them get it next,
// what came of it in all, and when it is over. It touches spec.requests of NodeWorkloads and
// the status of KillRequests, and deletes those whose time is over. What is done on a node,
// the shim decides.
package killrequest
