// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/logs"
)

// Logs is the kubelet's log manager. It has goroutines that never end, so it
// lives outside of the bubbles and serves one agent after another.
type Logs struct {
	manager logs.ContainerLogManager
	current *statuses
}

// statuses is all of the runtime that the log manager asks.
type statuses struct {
	internalapi.RuntimeService
	of RuntimeServices
}

func (s *statuses) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return s.of.ContainerStatus(ctx, id, verbose)
}

// NewLogs makes a log manager.
func NewLogs() (*Logs, error) {
	current := &statuses{}
	manager, err := logs.NewContainerLogManager(current, files{}, "10Mi", 5, 1, metav1.Duration{Duration: 10 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("make the log manager: %w", err)
	}
	return &Logs{manager: manager, current: current}, nil
}
