// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of ManagedWorkload: what people write
// (ManagedWorkload), what one node runs (NodeWorkload), and the record of
// every kill.
//
// +kubebuilder:object:generate=true
// +groupName=managedworkload.dev
package v1alpha1
