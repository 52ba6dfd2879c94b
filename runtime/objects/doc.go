// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects keeps what the manager sends to a node for its containers: ConfigMaps,
// Secrets and service account tokens. It decides what is known of an object, when a token
// is renewed, and what a pod lacks before it can start. It holds all of that in memory and
// nowhere else, and talks to no server: a Store is fed, and Tokens ask through a function.
package objects
