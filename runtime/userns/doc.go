// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package userns decides which IDs of the node a pod with a user namespace gets
// (hostUsers: false), and touches one file in the directory of each such pod:
//
//	<root>/<uid>/userns
//
// A range is on the disk before it is used, and stays its pod's until the pod has
// ended: no two pods share IDs, whenever the process ends. Format and size are the
// kubelet's (pkg/kubelet/userns).
package userns
