// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pressure looks each 10 s at what the node has left of memory, disk and process IDs,
// and ends one workload at a time when that is too little, as the kubelet's eviction manager
// does. What that means is decided by pure functions of plan: which thresholds are met, which
// workload is ended with which grace period and words, and what may start meanwhile. This package
// keeps what they need from one look to the next, reads the signals, and carries out.
//
// It touches one file of its own, which says after a restart which conditions the node had.
// Workloads end, and images and dead containers are removed, through interfaces that it declares.
package pressure
