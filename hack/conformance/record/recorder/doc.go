// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recorder asks the kubelet's own functions what they make of a case. It
// is a test binary, because time stands still in a bubble of testing/synctest,
// and is built with the tag record and an overlay, which ../main.go does.
package recorder
