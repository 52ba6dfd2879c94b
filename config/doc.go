// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has no code: its tests render the kustomizations of this folder, give
// them to an API server, and try the alerts.
package config
