// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert makes a ManagedWorkload of a DaemonSet, and says what of the DaemonSet
// it drops, what is ignored, and what the API server would refuse. It is pure.
package convert
