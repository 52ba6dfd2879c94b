// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poddir keeps a pod's place on the node: its directories, logs, hosts and
// resolver files, environment and termination messages, and what of them goes into
// a container. Volumes are runtime/volume's, the cgroup is runtime/podcgroup's, a
// user namespace's IDs are runtime/userns's; a pod's place is made ready and removed here, in the kubelet's order. It knows no
// CRI.
//
// The layout below the volumes' root directory and LogRoot is the kubelet's:
//
//	<root>/<uid>/etc-hosts
//	<root>/<uid>/containers/<container>/<8 hex>      termination message
//	<root>/<uid>/volumes, volume-subpaths            see runtime/volume
//	<LogRoot>/<namespace>_<name>_<uid>/<container>/<restart count>.log
package poddir
