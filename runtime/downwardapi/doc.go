// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downwardapi says what a fieldRef to metadata and a resourceFieldRef stand for,
// in variables and in files alike. It is pure: pod and node come in as values.
package downwardapi
