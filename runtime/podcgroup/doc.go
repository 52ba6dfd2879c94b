// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcgroup keeps the cgroup of each pod: the parent of what the runtime
// makes for its sandbox and containers. It decides the pod's limits, and what a pod
// declares above the bounds of the node. It touches nothing but the cgroups below its
// parent, and those limits of the parent that are bounded. It kills only what is left in the
// cgroup of a pod, and only where its caller knows that the runtime has none of it.
package podcgroup
