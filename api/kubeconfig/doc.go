// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig finds the API server for the manager and the shim by one
// rule. It reads a kubeconfig file or what a pod is given, and nothing else.
package kubeconfig
