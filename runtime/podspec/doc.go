// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podspec answers what Kubernetes says of a pod's spec: which container
// has a name, its field path in an event, whether it is a sidecar or privileged,
// and the pod's QoS class. Each question has one answer for all packages of the
// runtime. The package is pure and imports none of them.
package podspec
