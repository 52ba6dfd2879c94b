// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/logs"
)

func (f *fakeRuntime) ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}

func (f *fakeRuntime) RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return &runtimeapi.RemoveImageResponse{}, nil
}

// labelled is a container that a shim of a node made.
func labelled(id, node string, state runtimeapi.ContainerState) *fakeContainer {
	return &fakeContainer{ContainerStatus: &runtimeapi.ContainerStatus{
		Id: id, State: state, LogPath: "/logs/" + id, Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Labels: map[string]string{
			LabelManagedBy: ManagedByShim, LabelInstance: node,
			labelPodNamespace: "ns", labelPodName: "p", labelContainerName: "c",
		},
	}}
}

// Only logs of containers that this shim made are rotated.
func TestLogsOfOwnContainers(t *testing.T) {
	fake, client := newFake(t)
	fake.set(func() {
		fake.containers = []*fakeContainer{
			labelled("runs", "node-1", runtimeapi.ContainerState_CONTAINER_RUNNING),
			labelled("dead", "node-1", runtimeapi.ContainerState_CONTAINER_EXITED),
			labelled("another-shims", "node-2", runtimeapi.ContainerState_CONTAINER_RUNNING),
		}
	})
	got, err := client.LogContainers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []logs.Container{
		{ID: "runs", Name: "c", PodNamespace: "ns", PodName: "p", Running: true},
		{ID: "dead", Name: "c", PodNamespace: "ns", PodName: "p"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if path, err := client.LogPath(t.Context(), "runs"); path != "/logs/runs" || err != nil {
		t.Errorf("log %q, %v", path, err)
	}
	if err := client.ReopenLog(t.Context(), "runs"); err != nil {
		t.Error(err)
	}
}

// Images that containers start from or mount are used, whoever made the containers and whether
// they run or not.
func TestImagesOfContainers(t *testing.T) {
	fake, client := newFake(t)
	dead, foreign := labelled("dead", "node-1", runtimeapi.ContainerState_CONTAINER_EXITED), labelled("foreign", "", runtimeapi.ContainerState_CONTAINER_RUNNING)
	dead.ImageRef, dead.Image = "sha256:1", &runtimeapi.ImageSpec{Image: "r.example/app:v1"}
	foreign.ImageId, foreign.Labels = "sha256:2", nil
	foreign.Mounts = []*runtimeapi.Mount{{ContainerPath: "/a"}, {ContainerPath: "/b", Image: &runtimeapi.ImageSpec{Image: "sha256:3"}}}
	fake.set(func() { fake.containers = []*fakeContainer{dead, foreign} })
	got, err := client.ImagesOfContainers(t.Context())
	if diff := cmp.Diff([]string{"r.example/app:v1", "sha256:1", "sha256:2", "sha256:3"}, got); diff != "" || err != nil {
		t.Errorf("error %v; images (-want +got):\n%s", err, diff)
	}
}

// What the collector knows of an image is what the runtime says.
func TestListImages(t *testing.T) {
	fake, client := newFake(t)
	fake.set(func() {
		fake.images = []*runtimeapi.Image{{Id: "sha256:1", RepoTags: []string{"a:v1"}, RepoDigests: []string{"a@sha256:9"}, Size: 5, Pinned: true}}
	})
	got, err := client.ListImages(t.Context())
	want := []images.Image{{ID: "sha256:1", Names: []string{"a:v1", "a@sha256:9"}, Size: 5, Pinned: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v; images (-want +got):\n%s", err, diff)
	}
	if err := client.RemoveImage(t.Context(), "sha256:1"); err != nil {
		t.Error(err)
	}
}
