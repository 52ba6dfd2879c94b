// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A container that could not be started has ended and has no start time: not 1970.
func TestContainerThatNeverStarted(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	id := start(t, client, pod, &pod.Spec.Containers[0], runSandbox(t, client, pod, 0), 0)
	fake.set(func() {
		c, err := fake.find(id)
		if err != nil {
			t.Error(err)
			return
		}
		c.State, c.StartedAt, c.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, 0, 7
		c.ExitCode, c.Reason = 128, "StartError"
	})
	got := podStatus(t, client).Containers[0]
	if !got.StartedAt.IsZero() || got.FinishedAt.IsZero() || got.ExitCode != 128 {
		t.Errorf("started %s, finished %s, exit code %d", got.StartedAt, got.FinishedAt, got.ExitCode)
	}
}
