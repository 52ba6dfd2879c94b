// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpaction makes the requests of httpGet actions, which probes and
// lifecycle hooks have in common. It sends nothing: how a response is judged,
// which transport sends the request and what follows a failure is the caller's.
// (kubelet probe/http/request.go, probe/http/http.go, probe/util.go)
package httpaction
