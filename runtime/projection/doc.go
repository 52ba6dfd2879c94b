// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection says which files a volume of kind configMap, secret, downwardAPI or
// projected shows: their paths, data, modes and owners. It is pure: what is known of
// objects and tokens comes in as Facts.
//
// The kubelet's counterparts are pkg/volume/configmap, secret, downwardapi and projected.
package projection
