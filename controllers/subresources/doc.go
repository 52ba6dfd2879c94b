// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subresources serves the aggregated API subresources.managedworkload.dev on every
// replica of the manager: what NodeWorkloads of a node refer to, as a watch for the shim of that
// node, and tokens of their service accounts.
//
//	shim --> kube-apiserver (authentication, RBAC) --front proxy--> Server
//
// It decides who may ask for what: a request counts only with the certificate of the front
// proxy, and then only from a user who may report, for the node into which the API server bound
// his token, as long as that Node lives. While a watch lasts this is asked again. The contents
// come from the Objects and References of its caller.
//
// It touches nothing but tokens, which it asks the API server for.
package subresources
