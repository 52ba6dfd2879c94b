// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vectors reads plan inputs and writes actions in the format of the
// conformance vectors recorded from the kubelet: one JSON object a line.
//
// An input has the fields id, pod, podStatus, probes and restartAllContainers;
// others are ignored. Hashes are the kubelet's own and cannot be computed again:
// a container's definition has changed where its hashMatches is false, and is
// not known where it is null.
package vectors
