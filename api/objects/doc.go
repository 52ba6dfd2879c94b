// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects says which ConfigMaps and Secrets a pod's spec refers to and which
// service account tokens it asks for. The manager decides by it what a node may have, and
// the shim what it needs. It is pure.
package objects
