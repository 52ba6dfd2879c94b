// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

func (f *fakeRuntime) RunSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) (string, error) {
	f.record("RunPodSandbox", entry{"attempt": float64(attempt), "error": f.runSandboxError})
	if f.onRunSandbox != nil {
		f.onRunSandbox()
	}
	if err := waitFor(ctx, f.callSeconds["RunPodSandbox"]); err != nil {
		return "", status.FromContextError(err).Err()
	}
	if f.runSandboxError != "" {
		return "", errorOf(f.runSandboxError)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("%s_%s_%s_%d", pod.Name, pod.Namespace, pod.UID, attempt)
	mode := "POD"
	sandboxNet := &plan.SandboxNetwork{IP: "192.168.192.168"}
	if pod.Spec.HostNetwork {
		mode = "NODE"
	}
	f.sandboxes = slices.Insert(f.sandboxes, 0, &fakeSandbox{SandboxStatus: plan.SandboxStatus{
		ID: id, State: plan.SandboxReady, Attempt: attempt, CreatedAt: time.Now(), NetworkNamespace: mode, Network: sandboxNet,
	}})
	return id, nil
}

func (f *fakeRuntime) SandboxStatus(ctx context.Context, id string) (plan.SandboxStatus, error) {
	if ctx.Err() != nil {
		return plan.SandboxStatus{}, status.FromContextError(ctx.Err()).Err()
	}
	if f.sandboxStatusErr != "" {
		return plan.SandboxStatus{}, errorOf(f.sandboxStatusErr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if s.ID == id {
			return s.SandboxStatus, nil
		}
	}
	return plan.SandboxStatus{}, errorOf("NotFound")
}

func (f *fakeRuntime) StopSandbox(_ context.Context, id string) error {
	kind := ""
	f.mu.Lock()
	for _, s := range f.sandboxes {
		if s.ID == id {
			kind = s.stopError
			if kind == "" {
				s.State = plan.SandboxNotReady
				f.killRest(id)
			}
		}
	}
	f.mu.Unlock()
	f.record("StopPodSandbox", entry{"sandboxID": id, "error": kind})
	return errorOf(kind)
}

// killRest kills what still runs in a sandbox. f.mu is held.
func (f *fakeRuntime) killRest(id string) {
	for _, c := range f.containers {
		if f.sandboxKills && c.SandboxID == id && (c.State == plan.ContainerRunning || c.State == plan.ContainerUnknown) {
			c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, exitCodeSIGKILL, time.Now()
		}
	}
}

func (f *fakeRuntime) RemoveSandbox(_ context.Context, id string) error {
	f.record("RemovePodSandbox", entry{"sandboxID": id, "error": ""})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sandboxes = slices.DeleteFunc(f.sandboxes, func(s *fakeSandbox) bool { return s.ID == id })
	return nil
}

func (f *fakeRuntime) ImageRef(_ context.Context, image string) (string, error) {
	if f.images[image] {
		return image, nil
	}
	return "", nil
}

func (f *fakeRuntime) PullImage(_ context.Context, image string, _ *corev1.Pod) (string, error) {
	kind := f.pullError[image]
	f.record("PullImage", entry{"image": image, "error": kind})
	if kind != "" {
		return "", errorOf(kind)
	}
	if f.images == nil {
		f.images = map[string]bool{}
	}
	f.images[image] = true
	return image, nil
}
