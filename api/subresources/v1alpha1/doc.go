// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the aggregated API that the manager serves,
// subresources.managedworkload.dev. It stores nothing: a shim watches the objects that the
// containers of its node need, asks for their tokens, and says what its node and workloads use, which
// people read.
//
//	GET  /apis/subresources.managedworkload.dev/v1alpha1/nodeobjects?watch=true&fieldSelector=metadata.name=NODE
//	POST /apis/subresources.managedworkload.dev/v1alpha1/namespaces/NS/nodeworkloads/NAME/token
//
//	POST /apis/subresources.managedworkload.dev/v1alpha1/nodeusages
//	GET  /apis/subresources.managedworkload.dev/v1alpha1/nodeusages[/NODE]
//	GET  /apis/subresources.managedworkload.dev/v1alpha1/[namespaces/NS/]workloadusages
//	GET  /apis/subresources.managedworkload.dev/v1alpha1/namespaces/NS/workloadusages/NAME
//
// The body of the second is an authentication.k8s.io/v1 TokenRequest, and so is its answer.
//
// +kubebuilder:object:generate=true
// +groupName=subresources.managedworkload.dev
package v1alpha1
