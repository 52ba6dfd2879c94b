// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

// podDirAdapter lets a worker see the pod directories as its own interface.
type podDirAdapter struct {
	*poddir.Manager
	forget func(types.UID)
}

// Release implements podworker.PodDir.
func (a podDirAdapter) Release(ctx context.Context, id podworker.Identity) error {
	return a.Manager.Release(ctx, poddir.Identity(id))
}

// Remove implements podworker.PodDir.
func (a podDirAdapter) Remove(ctx context.Context, id podworker.Identity) error {
	a.forget(id.UID)
	return a.Manager.Remove(ctx, poddir.Identity(id))
}

// killSink hands the records to the pool, which is made after the executor.
type killSink struct{ pool func() *podworker.Pool }

// Kill implements executor.KillSink.
func (s killSink) Kill(uid types.UID, kill plan.KillProgress) { s.pool().Kill(uid, kill) }

// indexKnown finds workers by UID.
func indexKnown(known []podworker.Known) map[types.UID]podworker.Known {
	byUID := make(map[types.UID]podworker.Known, len(known))
	for _, k := range known {
		byUID[k.UID] = k
	}
	return byUID
}
