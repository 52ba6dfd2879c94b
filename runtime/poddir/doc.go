// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poddir keeps a pod's place on the node: its directories, volumes,
// logs and cgroup, and what of them goes into a container. It knows no CRI.
//
// The layout below RootDir and LogRoot is the kubelet's:
//
//	<RootDir>/<uid>/etc-hosts
//	<RootDir>/<uid>/containers/<container>/<8 hex>      termination message
//	<RootDir>/<uid>/volumes/kubernetes.io~empty-dir/<volume>
//	<RootDir>/<uid>/volume-subpaths/<volume>/<container>/<index>
//	<LogRoot>/<namespace>_<name>_<uid>/<container>/<restart count>.log
package poddir
