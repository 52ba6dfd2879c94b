// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cases makes new cases for conformance vectors at random, from known
// ones or from nothing.
package cases

import "github.com/managedworkload/managedworkload/hack/recordings"

// Cases with any answer.
type (
	Plan    = recordings.Plan[any]
	Status  = recordings.Status[any]
	Restart = recordings.Restart[any]
	Kill    = recordings.Kill[any]
	Sync    = recordings.Sync[any]
	GC      = recordings.GC[any]
)
