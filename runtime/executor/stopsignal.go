// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// checkStopSignal refuses to start a container whose stop signal the runtime has
// dropped, as one does that does not know the field: it would be stopped by
// SIGTERM, which it may not handle. The container is removed, because nothing else
// would be made of it.
func (s *syncRun) checkStopSignal(ctx context.Context, c *corev1.Container, id string) error {
	if !s.e.differences.StopSignals || c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return nil
	}
	created, err := s.e.containerStatus(ctx, id)
	if err != nil {
		return s.runtimeFailure(ctx, c, id, ErrCreateContainer, err)
	}
	if created.StopSignal == string(*c.Lifecycle.StopSignal) {
		return nil
	}
	if err := s.e.runtime.RemoveContainer(context.WithoutCancel(ctx), id); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to remove container without its stop signal", "container", c.Name)
	}
	message := fmt.Sprintf("the container runtime does not support lifecycle.stopSignal, %s was dropped", *c.Lifecycle.StopSignal)
	s.failed(c, id, message)
	return &startError{ErrCreateContainerConfig, message}
}
