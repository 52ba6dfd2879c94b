// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// life is one container as its runtime saw it.
type life struct {
	container       string
	attempt         uint32
	started, ended  time.Time
	exitCode        int32
	reason, message string
	sandboxAttempt  uint32
}

// lives listens to the events of a container runtime.
type lives struct {
	mu    sync.Mutex
	byID  map[string]*life
	byPod map[string][]string // container IDs in the order of their start, by UID
}

func newLives() *lives {
	return &lives{byID: map[string]*life{}, byPod: map[string][]string{}}
}

// listen takes events until the context is done.
func (l *lives) listen(ctx context.Context, cri *localstack.CRI) error {
	stream, err := cri.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("events of the runtime: %w", err)
	}
	for {
		event, err := stream.Recv()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("events of the runtime: %w", err)
		}
		if err != nil {
			return nil //nolint:nilerr // nobody listens any more
		}
		l.take(event)
	}
}

// take notes what an event says about its container.
func (l *lives) take(event *runtimeapi.ContainerEventResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sandbox := event.GetPodSandboxStatus()
	uid := sandbox.GetMetadata().GetUid()
	for _, c := range event.GetContainersStatuses() {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED || c.GetStartedAt() == 0 {
			continue
		}
		one := l.byID[c.GetId()]
		if one == nil {
			one = &life{container: c.GetMetadata().GetName(), attempt: c.GetMetadata().GetAttempt(), sandboxAttempt: sandbox.GetMetadata().GetAttempt()}
			l.byID[c.GetId()] = one
			l.byPod[uid] = append(l.byPod[uid], c.GetId())
		}
		one.started = time.Unix(0, c.GetStartedAt())
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			one.ended = time.Unix(0, c.GetFinishedAt())
			one.exitCode, one.reason, one.message = c.GetExitCode(), c.GetReason(), c.GetMessage()
		}
	}
}

// of returns the containers of a pod in the order of their start.
func (l *lives) of(uid string) []life {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []life
	for _, id := range l.byPod[uid] {
		list = append(list, *l.byID[id])
	}
	slices.SortStableFunc(list, func(a, b life) int { return a.started.Compare(b.started) })
	return list
}
