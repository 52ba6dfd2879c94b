// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// ImageUsable is whether a pod may use an image that the runtime has as ref.
func (e *Executor) ImageUsable(ctx context.Context, pod *corev1.Pod, image, ref string) bool {
	return e.images.usable(ctx, pod, image, ref)
}

// PrepareImage sees to it that an image that a container needs is there, before what runs
// is killed for it: as a start does, with its events and its back-off. begins is called when a pull
// begins. What it returns says why the image is not there; its error is that of ctx.
func (e *Executor) PrepareImage(ctx context.Context, pod *corev1.Pod, container string, image plan.ImageKey, begins func()) (plan.Preparation, error) {
	pulled := false
	if c := podspec.Container(pod, container); c == nil || plan.ImageKeyOf(c) != image {
		container = "" // of a volume
	}
	ref, err := e.images.ahead(ctx, pod, container, image, func() {
		pulled = true
		begins()
	})
	if ctx.Err() != nil {
		return plan.Preparation{}, ctx.Err()
	}
	if failure, ok := errors.AsType[*startError](err); ok {
		why := plan.Reason{Reason: failure.reason.Error(), Message: text.Cut(failure.message, maxResultMessage)}
		return plan.Preparation{Reason: why}, nil
	}
	return plan.Preparation{Ref: ref, Pulled: pulled}, err
}
