// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// limitsSeen writes down for which memory limits a pod's cgroup is made or changed.
type limitsSeen struct {
	*fakeRuntime
	calls []string
}

func (l *limitsSeen) see(call string, pod *corev1.Pod) error {
	for i := range pod.Spec.Containers {
		call += fmt.Sprintf(" %s %d", pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources.Limits.Memory().Value()/mega)
	}
	l.calls = append(l.calls, call)
	return nil
}

func (l *limitsSeen) prepare(_ context.Context, pod *corev1.Pod) error { return l.see("prepare", pod) }

func (l *limitsSeen) RaiseLimits(_ context.Context, _, pod *corev1.Pod, _ corev1.ResourceName) error {
	return l.see("raise", pod)
}

func (l *limitsSeen) LowerLimits(_ context.Context, _, pod *corev1.Pod, _ corev1.ResourceName) error {
	return l.see("lower", pod)
}

func (*limitsSeen) UpdateContainerResources(context.Context, *corev1.Pod, *corev1.Container, string, plan.Resources, plan.Resources) error {
	return nil
}

func (*limitsSeen) MemoryUse(context.Context, string) (uint64, error) { return 0, nil }

// The pod's cgroup is never made smaller than what its containers have that run on: the
// kernel would kill in it. All containers were given 64Mi, and the template has 32Mi.
func TestPodCgroupHasRoomForWhatRunsOn(t *testing.T) {
	t.Parallel()
	update := []plan.ResourceUpdate{{ID: "b-id", Name: "b", Current: plan.Resources{MemoryLimit: 64 * mega}, Desired: plan.Resources{MemoryLimit: 32 * mega}}}
	for name, tt := range map[string]struct {
		actions plan.Actions
		exited  bool // container b
		want    []string
	}{
		"a is kept for its image while b starts": {
			plan.Actions{Kept: []string{"a"}, ContainersToStart: []int{1}}, true, []string{"prepare a 64 b 32"}},
		"a is kept while b is killed and starts": {
			plan.Actions{Kept: []string{"a"}, ContainersToKill: []plan.Kill{{ID: "b-id", Name: "b", Container: &corev1.Container{Name: "b"}}}, ContainersToStart: []int{1}}, false,
			[]string{"prepare a 64 b 32"}},
		"a is kept while b is resized": {
			plan.Actions{Kept: []string{"a"}, MemoryToUpdate: update}, false, []string{"raise a 64 b 32", "lower a 64 b 32"}},
		"a starts before b is resized": {
			plan.Actions{ContainersToKill: []plan.Kill{{ID: "a-id", Name: "a", Container: &corev1.Container{Name: "a"}}}, ContainersToStart: []int{0}, MemoryToUpdate: update}, false,
			[]string{"prepare a 32 b 64", "raise a 32 b 32", "lower a 32 b 32"}},
		"all are replaced": {
			plan.Actions{KillPod: true, CreateSandbox: true, ContainersToStart: []int{0, 1}}, false, []string{"prepare a 32 b 32"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &limitsSeen{fakeRuntime: newFakeRuntime()}
			l.Images = map[string]bool{"img:1": true}
			pod := testPod(30, nil)
			pod.Spec.Containers = nil
			for _, c := range []string{"a", "b"} {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "img:1", Resources: plan.Resources{MemoryLimit: 32 * mega}.Requirements()})
				l.Containers = append(l.Containers, &fakeContainer{ContainerStatus: plan.ContainerStatus{
					ID: c + "-id", Name: c, State: plan.ContainerRunning, Recorded: plan.Recorded{Resources: &plan.Resources{MemoryLimit: 64 * mega}},
				}})
			}
			if tt.exited {
				l.Containers[1].State = plan.ContainerExited
			}
			e := New(Config{Runtime: l, Events: l, Kills: l, Prepare: l.prepare, PodCgroup: l, Differences: plan.AllDifferences()})
			e.SyncPod(t.Context(), plan.SyncRequest{
				Pod: pod, Observed: l.observed(), Actions: tt.actions, Backoff: map[string]*plan.Backoff{}, Actuated: map[string]plan.Resources{},
			})
			if diff := gocmp.Diff(tt.want, l.calls); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

// whileStopping does something while a container is being stopped.
type whileStopping struct {
	*limitsSeen
	do func()
}

func (w *whileStopping) StopContainer(ctx context.Context, id string, timeout int64) error {
	w.do()
	return w.limitsSeen.StopContainer(ctx, id, timeout)
}

// What became of the other containers while a kill took its time has its room in the pod's cgroup
// when the killed container is started again.
func TestPodCgroupHasRoomForWhatChangedDuringAKill(t *testing.T) {
	t.Parallel()
	old, next := plan.Resources{MemoryLimit: 64 * mega}, plan.Resources{MemoryLimit: 128 * mega}
	for name, during := range map[string]func(*testing.T, *Executor, *whileStopping, plan.SyncRequest){
		"b is replaced": func(_ *testing.T, _ *Executor, w *whileStopping, _ plan.SyncRequest) {
			b := w.Containers[1]
			b.ID, b.Recorded.Resources = "b2-id", &next
		},
		"b is resized": func(t *testing.T, e *Executor, w *whileStopping, r plan.SyncRequest) {
			r.Actions = plan.Actions{MemoryToUpdate: []plan.ResourceUpdate{{ID: "b-id", Name: "b", Current: old, Desired: next}}}
			e.SyncPod(t.Context(), r)
			w.calls = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &whileStopping{limitsSeen: &limitsSeen{fakeRuntime: newFakeRuntime()}}
			w.Images = map[string]bool{"img:1": true}
			pod := testPod(30, nil)
			pod.Spec.Containers = nil
			for _, c := range []string{"a", "b"} {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "img:1", Resources: next.Requirements()})
				w.Containers = append(w.Containers, &fakeContainer{ContainerStatus: plan.ContainerStatus{
					ID: c + "-id", Name: c, State: plan.ContainerRunning, Recorded: plan.Recorded{Resources: &old},
				}})
			}
			e := New(Config{Runtime: w, Events: w, Kills: w, Prepare: w.prepare, PodCgroup: w, Differences: plan.AllDifferences()})
			request := func(a plan.Actions) plan.SyncRequest {
				return plan.SyncRequest{
					Pod: pod, Observed: w.observed(), Actions: a, Backoff: map[string]*plan.Backoff{}, Actuated: map[string]plan.Resources{}, Beside: true,
				}
			}
			w.do = func() { during(t, e, w, request(plan.Actions{})) }
			e.SyncPod(t.Context(), request(plan.Actions{
				ContainersToKill: []plan.Kill{{ID: "a-id", Name: "a", Container: &corev1.Container{Name: "a"}}}, ContainersToStart: []int{0},
			}))
			if diff := gocmp.Diff([]string{"prepare a 128 b 128"}, w.calls); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}
