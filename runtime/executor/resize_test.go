// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

const mega = 1 << 20

// resizable is a runtime, and a pod's cgroup, that write down what is changed.
type resizable struct {
	*fakeRuntime
	calls  []string
	failOn string
	use    uint64
	gone   bool // so that nothing can be asked of the container
}

func (r *resizable) note(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	r.calls = append(r.calls, call)
	if call == r.failOn {
		return errors.New("not possible")
	}
	return nil
}

func (r *resizable) UpdateContainerResources(_ context.Context, _ *corev1.Pod, c *corev1.Container, id string, from, to plan.Resources) error {
	return r.note("update %s %s cpu %d->%d memory %d->%d", c.Name, id, from.CPULimit, to.CPULimit, from.MemoryLimit/mega, to.MemoryLimit/mega)
}

func (r *resizable) MemoryUse(context.Context, string) (uint64, error) {
	if r.gone {
		return 0, status.Error(codes.NotFound, "not found")
	}
	return r.use, nil
}

func (r *resizable) RaiseLimits(_ context.Context, before, _ *corev1.Pod, name corev1.ResourceName) error {
	return r.note("raise %s from %s", name, before.Spec.Containers[0].Resources.Limits.Cpu())
}

func (r *resizable) LowerLimits(_ context.Context, _, _ *corev1.Pod, name corev1.ResourceName) error {
	return r.note("lower %s", name)
}

// resizeInput is a pod whose container app gets 200m and 32Mi instead of 100m and
// 64Mi, and a second one that starts after that.
func resizeInput(f *fakeRuntime) plan.SyncRequest {
	pod := testPod(30, func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "next", Image: "img:1"})
	})
	before := plan.Resources{CPULimit: 100, MemoryLimit: 64 * mega}
	f.Containers = []*fakeContainer{{ContainerStatus: plan.ContainerStatus{
		ID: "id", Name: "app", State: plan.ContainerRunning, Recorded: plan.Recorded{Resources: &before},
	}}}
	u := plan.ResourceUpdate{ID: "id", Name: "app", Current: before, Desired: plan.Resources{CPULimit: 200, MemoryLimit: 32 * mega}}
	return plan.SyncRequest{
		Pod: pod, Observed: f.observed(), Backoff: map[string]*plan.Backoff{}, Actuated: map[string]plan.Resources{},
		Actions: plan.Actions{
			SandboxID: "sb", ContainersToStart: []int{1},
			MemoryToUpdate: []plan.ResourceUpdate{u}, CPUToUpdate: []plan.ResourceUpdate{u},
		},
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	const (
		raiseMemory  = "raise memory from 100m"
		updateMemory = "update app id cpu 100->100 memory 64->32"
		raiseCPU     = "raise cpu from 100m"
		updateCPU    = "update app id cpu 100->200 memory 32->32"
	)
	all := []string{raiseMemory, updateMemory, "lower memory", raiseCPU, updateCPU, "lower cpu"}
	tests := map[string]struct {
		failOn      string
		use         uint64
		gone        bool
		change      func(*plan.SyncRequest)
		want        []string
		wantGiven   plan.Resources
		wantMessage string
	}{
		"in order": {want: all, wantGiven: plan.Resources{CPULimit: 200, MemoryLimit: 32 * mega}},
		"a failed update ends it, what was done is known": {
			failOn: updateCPU, want: all[:5], wantGiven: plan.Resources{CPULimit: 100, MemoryLimit: 32 * mega}, wantMessage: "not possible",
		},
		"a pod that cannot grow": {failOn: raiseMemory, want: all[:1], wantMessage: "not possible"},
		"memory in use": {
			use:         32 * mega,
			wantMessage: `cannot decrease memory limits: attempting to set container "app" memory limit (33554432) below current usage (33554432)`,
		},
		"a container that is gone: its update says so": {
			gone: true, failOn: updateMemory, want: all[:2], wantMessage: "not possible",
		},
		"a killed pod is not resized": {change: func(in *plan.SyncRequest) {
			in.Actions = plan.Actions{KillPod: true, CPUToUpdate: in.Actions.CPUToUpdate}
			in.Observed = &plan.PodStatus{}
		}},
		"the pod alone": {
			change: func(in *plan.SyncRequest) {
				in.Actions.MemoryToUpdate, in.Actions.CPUToUpdate, in.Actions.UpdatePodResources = nil, nil, true
			},
			want: []string{raiseMemory, "lower memory", raiseCPU, "lower cpu"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeRuntime()
			r := &resizable{fakeRuntime: f, failOn: tt.failOn, use: tt.use, gone: tt.gone}
			in := resizeInput(f)
			if tt.change != nil {
				tt.change(&in)
			}
			e := newFakeExecutor(f)
			e.runtime, e.cgroup = r, r
			result := e.SyncPod(t.Context(), in)
			if diff := gocmp.Diff(tt.want, r.calls); diff != "" {
				t.Errorf("Calls differ (-want +got):\n%s", diff)
			}
			if got := in.Actuated["id"]; got != tt.wantGiven {
				t.Errorf("Given: %+v, want %+v", got, tt.wantGiven)
			}
			message := ""
			for _, step := range result.Results {
				if errors.Is(step.Err, ErrResizePodInPlace) {
					message = step.Message
				}
			}
			if message != tt.wantMessage {
				t.Errorf("Message %q, want %q", message, tt.wantMessage)
			}
			if starts := len(f.ops("StartContainer")); starts != len(in.Actions.ContainersToStart) {
				t.Errorf("%d containers started: a resize is to hold up nothing", starts)
			}
		})
	}
}

// A runtime that cannot resize says so.
func TestResizeWithoutAResizer(t *testing.T) {
	t.Parallel()
	f := newFakeRuntime()
	result := newFakeExecutor(f).SyncPod(t.Context(), resizeInput(f))
	if err := result.Err; !errors.Is(err, ErrResizePodInPlace) {
		t.Errorf("Error = %v, want %v", err, ErrResizePodInPlace)
	}
}
