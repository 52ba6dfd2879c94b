// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Only what bears the shim's marker and its instance is ours: a pod's UID alone
// proves nothing.
func TestOnlyWhatBearsMarkerAndInstanceIsOurs(t *testing.T) {
	fake, client := newFake(t)
	labels := map[types.UID]map[string]string{
		"uid-1":        {LabelManagedBy: ManagedByShim, LabelInstance: "node-1"},
		"no-marker":    {LabelInstance: "node-1"},
		"other-marker": {LabelManagedBy: "kubelet", LabelInstance: "node-1"},
		"other-node":   {LabelManagedBy: ManagedByShim, LabelInstance: "node-2"},
		"no-node":      {LabelManagedBy: ManagedByShim},
	}
	fake.set(func() {
		for uid, own := range labels {
			own[labelPodUID] = string(uid)
			fake.sandboxes = append(fake.sandboxes, &runtimeapi.PodSandboxStatus{Id: "s-" + string(uid), Labels: own})
		}
	})
	pods, err := client.ListPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[types.UID]bool{}
	for _, p := range pods {
		got[p.UID] = p.Ours
	}
	want := map[types.UID]bool{"uid-1": true, "no-marker": false, "other-marker": false, "other-node": false, "no-node": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ours (-want +got)\n%s", diff)
	}
}

// Two shims on one runtime may have pods of one UID: each sees its own.
func TestPodStatusLeavesAnotherShimsContainersOut(t *testing.T) {
	fake, client := newFake(t)
	sandbox := runSandbox(t, client, newPod(), 0)
	other := map[string]string{
		labelPodUID: "uid-1", labelContainerName: "app", LabelManagedBy: ManagedByShim, LabelInstance: "node-2",
	}
	fake.set(func() {
		fake.sandboxes = append(fake.sandboxes, &runtimeapi.PodSandboxStatus{Id: "theirs", Labels: other})
		fake.containers = append(fake.containers, &fakeContainer{sandbox: "theirs", ContainerStatus: &runtimeapi.ContainerStatus{
			Id: "their-container", State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: other,
		}})
	})
	got := podStatus(t, client)
	if len(got.Sandboxes) != 1 || got.Sandboxes[0].ID != sandbox || len(got.Containers) != 0 {
		t.Errorf("sandboxes %v, containers %v; want our sandbox alone", got.Sandboxes, got.Containers)
	}
}

// Anyone can make a container with the labels of a pod: by those alone it is not the
// pod's, whatever a record says.
func TestContainerOfOthersIsNotThePods(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	ours := start(t, client, pod, &pod.Spec.Containers[0], runSandbox(t, client, pod, 0), 0)
	fake.set(func() {
		fake.containers = append(fake.containers, &fakeContainer{sandbox: "theirs", ContainerStatus: &runtimeapi.ContainerStatus{
			Id: "theirs", State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: map[string]string{labelPodUID: "uid-1"},
		}})
	})
	for id, want := range map[string]string{ours: "uid-1", "theirs": ""} {
		got, err := client.ContainerStatus(t.Context(), id)
		if err != nil || got.PodUID != want {
			t.Errorf("container %s is of pod %q (%v), want %q", id, got.PodUID, err, want)
		}
	}
}

// The order of containers decides in which order sidecars end: it is the
// template's, not that in which the runtime lists them.
func TestRecordedPodHasTheTemplatesOrder(t *testing.T) {
	fake, client := newFake(t)
	fake.set(func() { fake.images = []*runtimeapi.Image{image("example.com/app:v1", nil, "")} })
	pod := newPod()
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range []string{"a", "b", "c"} {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "example.com/app", RestartPolicy: &always})
	}
	sandbox := runSandbox(t, client, pod, 0)
	for _, i := range []int{1, 2, 0} {
		options := plan.CreateOptions{SandboxID: sandbox, ImageRef: "sha256:1"}
		if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.InitContainers[i], options); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.RecordedPod(t.Context(), "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got.Spec.InitContainers {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("sidecars (-want +got)\n%s", diff)
	}
}
