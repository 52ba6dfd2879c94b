// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/probe"
)

// probeAdapter lets a worker see the probe manager as its own interface.
type probeAdapter struct{ *probe.Manager }

// probeKinds are the kinds of probes that ask for kills.
var probeKinds = map[v1alpha1.KillTrigger]string{
	v1alpha1.TriggerLivenessProbe: "liveness",
	v1alpha1.TriggerStartupProbe:  "startup",
}

// LastFailure implements podworker.Prober.
func (a probeAdapter) LastFailure(uid types.UID, containerID string, trigger v1alpha1.KillTrigger) string {
	kind, message, failures := a.Manager.LastFailure(uid, containerID)
	if kind == "" || kind != probeKinds[trigger] {
		return ""
	}
	return fmt.Sprintf("%dx, %s", failures, message)
}

// podDirAdapter lets a worker see the pod directories as its own interface.
type podDirAdapter struct {
	*poddir.Manager
	forget func(types.UID)
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
