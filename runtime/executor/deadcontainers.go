// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// keptDead is how many dead instances of a container stay after a death.
const keptDead = 1

// RemoveDead removes, after the death of a container, the dead instances of its
// name but the newest. What is gone already is no error.
// (kubelet kubelet.go:cleanUpContainersInPod, pod_container_deletor.go)
func (e *Executor) RemoveDead(ctx context.Context, observed *plan.PodStatus, exitedID string) error {
	var errs []error
	for _, id := range tooManyDead(observed, exitedID) {
		if err := e.removeContainer(ctx, id, false); err != nil && !runtimeerror.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove dead container %q: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// tooManyDead returns the IDs of the dead containers to be removed, newest
// first. An ID that is not known removes nothing.
func tooManyDead(observed *plan.PodStatus, exitedID string) []string {
	var dead []plan.ContainerStatus
	at := slices.IndexFunc(observed.Containers, func(c plan.ContainerStatus) bool { return c.ID == exitedID })
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if at >= 0 && c.State == plan.ContainerExited && c.Name == observed.Containers[at].Name {
			dead = append(dead, *c)
		}
	}
	slices.SortStableFunc(dead, func(a, b plan.ContainerStatus) int { return b.CreatedAt.Compare(a.CreatedAt) })
	var ids []string
	for i := keptDead; i < len(dead); i++ {
		ids = append(ids, dead[i].ID)
	}
	return ids
}
