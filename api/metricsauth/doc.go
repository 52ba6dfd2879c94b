// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metricsauth decides who may read the metrics of the manager and of a shim. On a loopback
// address everyone on the machine may, by HTTP. On any other address they are served by HTTPS, and
// the API server is asked who a caller is and whether he may get the path.
//
// Of k8s.io/apiserver's delegating authenticator, which does the same, it does without 7 MB of
// program: CEL, OTLP and konnectivity.
package metricsauth
