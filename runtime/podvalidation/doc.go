// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podvalidation decides which Pod templates no API server would accept as a Pod, where none is
// asked: those of static workloads. It is pure. What this project does not support is refused by
// api/template, and not looked at here.
package podvalidation
