// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcgroup keeps the cgroup of each pod: the parent of what the runtime
// makes for its sandbox and containers. It decides the pod's limits and touches
// nothing but cgroups below its parent. It kills nothing.
package podcgroup
