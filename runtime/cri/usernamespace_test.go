// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// isolating is a handler with user namespaces.
func isolating(name string) *runtimeapi.RuntimeHandler {
	return &runtimeapi.RuntimeHandler{Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}
}

func ofClass(p *corev1.Pod) {
	p.Spec.RuntimeClassName = new("crun")
	p.Annotations = map[string]string{v1alpha1.AnnotationRuntimeHandler: "crun"}
}

// Sandbox, containers and all mounts have the pod's range.
func TestUserNamespaceOfAPod(t *testing.T) {
	mapping := []*runtimeapi.IDMapping{{HostId: 131072, ContainerId: 0, Length: 65536}}
	private := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping, Gids: mapping}
	node := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
	tests := map[string]struct {
		pod  func(*corev1.Pod)
		want *runtimeapi.UserNamespace
	}{
		"its own":                   {func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }, private},
		"its own in a class":        {func(p *corev1.Pod) { p.Spec.HostUsers = new(false); ofClass(p) }, private},
		"the node's":                {func(p *corev1.Pod) { p.Spec.HostUsers = new(true) }, node},
		"the node's, by being mute": {func(*corev1.Pod) {}, node},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			fake.handlers = []*runtimeapi.RuntimeHandler{isolating(""), isolating("crun")}
			fake.images = []*runtimeapi.Image{image("example.com/app:v1", nil, "")}
			pod := newPod()
			tc.pod(pod)
			if _, err := client.RunSandbox(t.Context(), pod, 3); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions); err != nil {
				t.Fatal(err)
			}
			run := request[runtimeapi.RunPodSandboxRequest](t, fake, "RunPodSandbox")
			create := request[runtimeapi.CreateContainerRequest](t, fake, "CreateContainer")
			got := []*runtimeapi.UserNamespace{
				run.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
				create.GetSandboxConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
				create.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
			}
			want := []*runtimeapi.UserNamespace{tc.want, tc.want, tc.want}
			for _, m := range create.GetConfig().GetMounts() {
				got = append(got, &runtimeapi.UserNamespace{Mode: tc.want.Mode, Uids: m.GetUidMappings(), Gids: m.GetGidMappings()})
				want = append(want, tc.want)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || len(got) != 6 {
				t.Errorf("of the sandbox, of its description in the container's, of the container and of %d mounts (-want +got)\n%s", len(got)-3, diff)
			}
		})
	}
}

// The runtime is asked for nothing where it can't isolate users; the words are the
// kubelet's.
func TestRuntimeWithoutUserNamespaces(t *testing.T) {
	const mute = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	const class = "can't set `spec.hostUsers: false`, RuntimeClass handler \"crun\" does not support user namespaces"
	tests := map[string]struct {
		pod  func(*corev1.Pod)
		fake func(*fakeRuntime)
		want string
	}{
		"no handlers":                 {want: mute},
		"the default handler cannot":  {fake: func(f *fakeRuntime) { f.handlers = []*runtimeapi.RuntimeHandler{{}, isolating("crun")} }, want: mute},
		"the class's handler cannot":  {pod: ofClass, fake: func(f *fakeRuntime) { f.handlers = []*runtimeapi.RuntimeHandler{isolating(""), {Name: "crun"}} }, want: class},
		"the handler is not known":    {pod: ofClass, fake: func(f *fakeRuntime) { f.handlers = []*runtimeapi.RuntimeHandler{isolating("")} }, want: class + `: the handler "crun" is not known`},
		"the runtime does not answer": {fake: func(f *fakeRuntime) { f.fail["Status"] = status.Error(codes.Unknown, "busy") }, want: mute + ": ask the runtime's status: rpc error: code = Unknown desc = busy"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			fake.images = []*runtimeapi.Image{image("example.com/app:v1", nil, "")}
			if tc.fake != nil {
				tc.fake(fake)
			}
			pod := newPod()
			if tc.pod != nil {
				tc.pod(pod)
			}
			if err := client.CanIsolateUsers(t.Context(), pod); err != nil {
				t.Errorf("a pod without hostUsers: %v", err)
			}
			pod.Spec.HostUsers = new(false)
			_, err := client.RunSandbox(t.Context(), pod, 0)
			if err == nil || err.Error() != tc.want {
				t.Errorf("sandbox: error %v, want %s", err, tc.want)
			}
			_, err = client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions)
			if _, ok := errors.AsType[*configError](err); !ok {
				t.Errorf("container: error %v, want one of the template", err)
			}
			if err := client.CanIsolateUsers(t.Context(), pod); err == nil || err.Error() != tc.want {
				t.Errorf("before a kill: error %v, want %s", err, tc.want)
			}
			if calls := fake.takeCalls(); slices.Contains(calls, "RunPodSandbox") || slices.Contains(calls, "CreateContainer") {
				t.Errorf("the runtime was asked to start: %v", calls)
			}
		})
	}
}

// Without a range nothing starts.
func TestNoRangeForAPod(t *testing.T) {
	broken := errors.New("could not find an empty slot")
	fake, client := newFake(t, func(c *Config) { c.PodDir = &fakePodDir{logs: t.TempDir(), usersErr: broken} })
	fake.handlers = []*runtimeapi.RuntimeHandler{isolating("")}
	pod := newPod()
	pod.Spec.HostUsers = new(false)
	if _, err := client.RunSandbox(t.Context(), pod, 0); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if calls := fake.takeCalls(); slices.Contains(calls, "RunPodSandbox") {
		t.Errorf("the runtime was called: %v", calls)
	}
}
