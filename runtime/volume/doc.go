// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume keeps the volumes of all pods on the node as they are wanted. It
// decides what is set up and torn down, and touches the volume directories of pods,
// the mounts below those, and hostPaths as their type asks for.
//
// Callers say what a pod wants; one loop (Run) makes it so and tries again what
// failed:
//
//	WaitForMount(pod) ──> wanted: its volumes ──┐
//	                                            ├──> pass: set up, tear down what
//	Unmount(uid) ───────> wanted: none ─────────┘    is not wanted ──> callers wait
//	                                                 for the pass that saw their wish
//
// A pass decides from what it finds on the disk and in the mount table. The layout
// below a pod's directory is the kubelet's:
//
//	volumes/kubernetes.io~empty-dir/<volume>
//	plugins/kubernetes.io~empty-dir/<volume>/ready
//	volumes/kubernetes.io~configmap/<volume>          (secret, downward-api, projected)
//	plugins/kubernetes.io~configmap/<volume>/source   what it was set up for
//	volume-subpaths/<volume>/<container>/<index>
//
// Volumes that show ConfigMaps, Secrets, tokens or fields of the pod are each a tmpfs of
// their own; nothing of their content is anywhere else. Follow and Refresh bring their
// files up to date while containers run; one that fails keeps what it has.
//
// The kubelet's counterpart is pkg/kubelet/volumemanager.
package volume
