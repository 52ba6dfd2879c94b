// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// obedient is a runtime that does what it is asked and whose calls take their time; it
// notes them, and the kills that the executor reports.
type obedient struct {
	executor.Runtime
	pod    *corev1.Pod
	hooks  map[string]time.Duration
	images plan.Images
	// removesInit: removals of init containers are noted too, which are otherwise those
	// of dead ones, before they run again.
	removesInit bool
	begun       time.Time

	mu         sync.Mutex
	containers []plan.ContainerStatus
	seen       map[string]bool // records, by ID
	lines      []line
}

func newObedient(s *state) *obedient {
	return &obedient{
		pod: s.in.Pod, hooks: s.hooks, images: maps.Clone(s.in.Images), begun: time.Now(),
		containers: slices.Clone(s.in.Observed.Containers), seen: map[string]bool{},
	}
}

func (o *obedient) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line{time.Since(o.begun), fmt.Sprintf(format, args...)})
}

// call takes callTime and is noted.
func (o *obedient) call(format string, args ...any) {
	o.note(format+" begins", args...)
	time.Sleep(callTime)
	o.note(format+" ends", args...)
}

func (o *obedient) find(id string) *plan.ContainerStatus {
	for i := range o.containers {
		if o.containers[i].ID == id {
			return &o.containers[i]
		}
	}
	return &plan.ContainerStatus{}
}

func (o *obedient) ContainerStatus(_ context.Context, id string) (plan.ContainerStatus, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.find(id)
	if c.ID == "" {
		return *c, fmt.Errorf("no container %q", id)
	}
	return *c, nil
}

func (o *obedient) StopContainer(_ context.Context, id string, seconds int64) error {
	o.call("StopContainer %s, %d s,", id, seconds)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.find(id).State = plan.ContainerExited
	return nil
}

func (o *obedient) RemoveContainer(ctx context.Context, id string) error {
	c, err := o.ContainerStatus(ctx, id)
	isInit := slices.ContainsFunc(o.pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
	if o.removesInit || !isInit {
		o.call("RemoveContainer %s", id)
	}
	return err
}

func (o *obedient) StopSandbox(_ context.Context, id string) error {
	o.call("StopSandbox %s", id)
	return nil
}

func (o *obedient) RunSandbox(context.Context, *corev1.Pod, uint32) (string, error) {
	o.call("RunSandbox")
	return "new", nil
}

func (*obedient) SandboxStatus(_ context.Context, id string) (plan.SandboxStatus, error) {
	return plan.SandboxStatus{ID: id, State: plan.SandboxReady}, nil
}

func (o *obedient) ImageRef(_ context.Context, image string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.images[withoutTag(image)], nil
}

func (o *obedient) PullImage(_ context.Context, image string, _ *corev1.Pod, _ *images.Login) (string, error) {
	o.call("PullImage %s", withoutTag(image))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.images[withoutTag(image)] = image
	return image, nil
}

func withoutTag(image string) string { return strings.TrimSuffix(image, ":latest") }

func (*obedient) CreateContainer(_ context.Context, _ *corev1.Pod, c *corev1.Container, _ plan.CreateOptions) (string, error) {
	return "new-" + c.Name, nil
}

func (o *obedient) StartContainer(_ context.Context, id string) error {
	o.call("StartContainer %s", strings.TrimPrefix(id, "new-"))
	return nil
}

func (o *obedient) UpdateContainerResources(_ context.Context, _ *corev1.Pod, _ *corev1.Container, id string, _, _ plan.Resources) error {
	o.call("UpdateContainerResources %s", id)
	return nil
}

func (*obedient) MemoryUse(context.Context, string) (uint64, error) { return 0, nil }

// ExecSync runs a preStop hook.
func (o *obedient) ExecSync(ctx context.Context, id string, _ []string, _ time.Duration) ([]byte, []byte, int32, error) {
	c, err := o.ContainerStatus(ctx, id)
	if err != nil {
		return nil, nil, 0, err
	}
	o.note("hook of %s begins", id)
	timer := time.NewTimer(o.hooks[c.Name])
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	o.note("hook of %s ends", id)
	return nil, nil, 0, ctx.Err()
}

func (*obedient) Event(*corev1.Pod, string, string, string, string) {}

func (o *obedient) Kill(_ types.UID, kill plan.KillProgress) {
	rec := &kill.Record
	o.mu.Lock()
	seen := o.seen[rec.ID]
	o.seen[rec.ID] = true
	o.mu.Unlock()
	if seen {
		return
	}
	hook := ""
	if rec.PreStop != nil && rec.PreStop.Outcome != v1alpha1.PreStopSkipped {
		hook = rec.PreStop.Handler
	}
	o.note("kill %s: %s %q, %d s from %s, hook %q", rec.ContainerID, rec.Trigger, rec.Message, rec.Grace.Seconds, rec.Grace.Source, hook)
}
