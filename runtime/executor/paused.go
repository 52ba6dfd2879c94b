// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Freezer knows which containers something has paused: the runtime reports that they run.
type Freezer interface {
	// Paused is whether a container is paused, as far as that is known.
	Paused(ctx context.Context, podUID types.UID, containerID string) bool
	// Thaw resumes a container that is paused, where SIGKILL cannot reach it otherwise.
	Thaw(ctx context.Context, podUID types.UID, containerID string) (resumed bool, err error)
}

// freezerPatience bounds a question to the freezer, which asks the runtime for the process.
const freezerPatience = 5 * time.Second

// notePaused notes in the record that the container is paused.
func (k *kill) notePaused(ctx context.Context) {
	if k.e.freezer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, freezerPatience)
	defer cancel()
	if k.e.freezer.Paused(ctx, k.pod.UID, k.ID) {
		k.change(func(rec *v1alpha1.KillRecord) { rec.Paused = true })
	}
}

// thaw resumes a container that is paused and that the runtime's SIGKILL has not ended.
func (k *kill) thaw(ctx context.Context) {
	if k.e.freezer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, freezerPatience)
	defer cancel()
	if !k.e.freezer.Paused(ctx, k.pod.UID, k.ID) {
		return
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("container", k.Name)
	switch resumed, err := k.e.freezer.Thaw(ctx, k.pod.UID, k.ID); {
	case err != nil:
		log.Error(err, "Failed to resume a paused container that was killed; waiting for the runtime")
		return
	case resumed:
		log.Info("Resumed a paused container, so that its SIGKILL reaches it")
	}
	k.change(func(rec *v1alpha1.KillRecord) { rec.Paused = true })
}
