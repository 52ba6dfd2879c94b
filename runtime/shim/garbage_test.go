// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// garbageRuntime lists pods, and writes down what is done to them.
type garbageRuntime struct {
	executor.Runtime
	pods     []cri.Pod
	statuses map[types.UID]*plan.PodStatus
	asked    []types.UID
	touched  []string
}

func (r *garbageRuntime) ListPods(context.Context) ([]cri.Pod, error) { return r.pods, nil }

func (r *garbageRuntime) PodStatus(_ context.Context, uid types.UID) (*plan.PodStatus, error) {
	r.asked = append(r.asked, uid)
	return r.statuses[uid], nil
}

func (r *garbageRuntime) ContainerStatus(_ context.Context, id string) (plan.ContainerStatus, error) {
	for _, s := range r.statuses {
		for _, c := range s.Containers {
			if c.ID == id {
				return c, nil
			}
		}
	}
	return plan.ContainerStatus{}, nil
}

func (r *garbageRuntime) touch(what, id string) error {
	r.touched = append(r.touched, what+" "+id)
	return nil
}

func (r *garbageRuntime) StopContainer(_ context.Context, id string, _ int64) error {
	return r.touch("stop", id)
}

func (r *garbageRuntime) RemoveContainer(_ context.Context, id string) error {
	return r.touch("remove", id)
}

func (r *garbageRuntime) StopSandbox(_ context.Context, id string) error {
	return r.touch("stop", id)
}

func (r *garbageRuntime) RemoveSandbox(_ context.Context, id string) error {
	return r.touch("remove", id)
}

// add puts a pod with dead containers, one of unknown state and two dead
// sandboxes on the runtime.
func (r *garbageRuntime) add(pod cri.Pod) {
	status := &plan.PodStatus{}
	for i, state := range []plan.ContainerState{plan.ContainerRunning, plan.ContainerExited, plan.ContainerUnknown, plan.ContainerExited} {
		id := string(pod.UID) + "-c" + string(rune('0'+i))
		pod.Containers = append(pod.Containers, id)
		status.Containers = append(status.Containers, plan.ContainerStatus{
			ID: id, Name: "c", State: state, SandboxID: string(pod.UID) + "-s0", CreatedAt: time.Unix(int64(100-i), 0),
		})
	}
	for i := range 2 {
		id := string(pod.UID) + "-s" + string(rune('0'+i))
		pod.Sandboxes = append(pod.Sandboxes, id)
		status.Sandboxes = append(status.Sandboxes, plan.SandboxStatus{
			ID: id, State: plan.SandboxNotReady, CreatedAt: time.Unix(int64(100-i), 0),
		})
	}
	r.pods, r.statuses[pod.UID] = append(r.pods, pod), status
}

// noEvents takes events and records of kills.
type noEvents struct{}

func (noEvents) Event(*corev1.Pod, string, string, string, string) {}
func (noEvents) Kill(types.UID, v1alpha1.KillRecord)               {}

// Garbage is collected of the pods that have a worker, and of no others: not of
// another shim's, not of the kubelet's, not where the worker ends the pod itself.
func TestGarbageIsOurs(t *testing.T) {
	runtime := &garbageRuntime{statuses: map[types.UID]*plan.PodStatus{}}
	keeper := newKeeper(t, 0)
	for _, uid := range []types.UID{"ours", "ending", "taken"} {
		nw := &v1alpha1.NodeWorkload{
			ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: string(uid), Generation: 1},
			Spec: v1alpha1.NodeWorkloadSpec{NodeName: "node", Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "image"}},
			}}},
		}
		if uid == "ending" {
			nw.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		keeper.pool.Update(nw)
		// "taken" has the UID of a workload, but another shim made it.
		runtime.add(cri.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: uid != "taken"})
	}
	runtime.add(cri.Pod{UID: "foreign", Namespace: "kube-system", Name: "dns"})
	runtime.add(cri.Pod{UID: "orphan", Namespace: "ns", Name: "orphan", Ours: true})
	c := &collector{
		runtime: runtime, pool: keeper.pool, orphans: keeper.orphanKeeper,
		executor: executor.New(executor.Config{Runtime: runtime, Events: noEvents{}, Kills: noEvents{}}),
	}
	err := c.executor.CollectGarbage(t.Context(), executor.GarbageOptions{
		List:           c.list,
		ContentRemoved: func(types.UID) bool { return false },
		AllKnown:       true,
		Policy:         executor.DefaultGarbagePolicy(),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"remove ours-c3", "stop ours-c2", "remove ours-c2", "stop ours-s1", "remove ours-s1"}
	if diff := cmp.Diff(want, runtime.touched); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]types.UID{"ours"}, slices.Compact(runtime.asked)); diff != "" {
		t.Errorf("asked about (-want +got)\n%s", diff)
	}
}
