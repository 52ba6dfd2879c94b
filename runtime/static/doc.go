// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package static runs workloads from files on the node, as the kubelet runs static Pods: it
// decides which NodeWorkloads the files of a directory stand for, and when one of them is at
// its end. It reads that directory, and keeps a file for each workload below its own: the
// object with its status, so that a workload can be ended as it was written after its file
// is gone. It kills nothing itself; the workers do.
package static
