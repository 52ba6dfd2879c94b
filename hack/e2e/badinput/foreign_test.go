// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A container that was started by hand in the sandbox of a workload is reported and left
// alone, harms nothing, and ends with the sandbox when the workload does.
func TestForeignContainerInTheSandbox(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, plain)
	w.AwaitReady()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cri.Close() })
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil || len(list.GetItems()) != 1 {
		t.Fatalf("sandboxes %v, error %v", list.GetItems(), err)
	}
	sandbox := list.GetItems()[0]
	foreign, err := cri.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId:  sandbox.GetId(),
		SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: sandbox.GetMetadata()},
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "shell"},
			Image:    &runtimeapi.ImageSpec{Image: testImage},
			Args:     []string{"serve", "--on-term=ignore"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := foreign.GetContainerId()
	if _, err := cri.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	nw := w.Await("the condition reports it", func(nw *v1alpha1.NodeWorkload) bool {
		for _, c := range nw.Status.Conditions {
			if c.Type == v1alpha1.ConditionForeignContainers {
				return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "shell ("+id+")")
			}
		}
		return false
	})
	if nw.Status.KillCount != 0 || nw.Status.Ready != "1/1" {
		t.Errorf("%d kills, ready %s", nw.Status.KillCount, nw.Status.Ready)
	}
	w.AwaitEvent("ForeignContainers", "Container shell ("+id+"), which the shim did not create, runs in the sandbox. It is left alone and ends with the sandbox")
	state, err := cri.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil || state.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("its state: %v, error %v", state.GetStatus().GetState(), err)
	}
	for _, kill := range w.DeleteAndCollect() {
		if kill.ContainerID == id || kill.Outcome != v1alpha1.KillOutcomeGraceful {
			t.Errorf("kill %+v", kill)
		}
	}
	if _, err := cri.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id}); status.Code(err) != codes.NotFound {
		t.Errorf("it is still there after the workload: error %v", err)
	}
}
