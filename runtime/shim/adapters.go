// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
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
	defer a.forget(id.UID) // its volumes have tokens renewed until they are gone
	return a.Manager.Release(ctx, poddir.Identity(id))
}

// Remove implements podworker.PodDir.
func (a podDirAdapter) Remove(ctx context.Context, id podworker.Identity) error {
	a.forget(id.UID)
	return a.Manager.Remove(ctx, poddir.Identity(id))
}

// KillLeftovers implements podworker.PodDir.
func (a podDirAdapter) KillLeftovers(ctx context.Context, uid types.UID) ([]podworker.Leftover, error) {
	killed, err := a.Manager.KillLeftovers(ctx, uid)
	left := make([]podworker.Leftover, 0, len(killed))
	for _, process := range killed {
		left = append(left, podworker.Leftover{PID: process.PID, Name: process.Name, ContainerID: process.Container})
	}
	return left, err
}

// needs are what a changed workload could not be started without: objects, and a
// runtime that can isolate its users.
type needs struct {
	podworker.Objects
	runtime interface {
		CanIsolateUsers(ctx context.Context, pod *corev1.Pod) error
	}
}

// needsPatience bounds the question to the runtime; without an answer the change waits.
const needsPatience = 2 * time.Second

// Missing implements podworker.Objects.
func (n needs) Missing(ctx context.Context, pod *corev1.Pod) []plan.Missing {
	missing := n.Objects.Missing(ctx, pod)
	ctx, cancel := context.WithTimeout(ctx, needsPatience)
	defer cancel()
	if err := n.runtime.CanIsolateUsers(ctx, pod); err != nil {
		reason := plan.Reason{Reason: v1alpha1.ReasonNoUserNamespaces, Message: err.Error()}
		missing = append(missing, plan.Missing{Reason: reason})
	}
	return missing
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
