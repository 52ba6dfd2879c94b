// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodestats knows what the node, its workloads and their containers use: CPU, working
// set, swap, and what containers have written into their root file systems. The runtime is asked
// only on request, at most every 10 seconds. It decides nothing and keeps the last two
// answers; /metrics/resource shows them in the kubelet's format.
package nodestats
