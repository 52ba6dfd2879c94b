// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
)

var plainOptions = plan.CreateOptions{
	SandboxID: "sandbox-1", SandboxAttempt: 3, Attempt: 2, ImageRef: "sha256:1", PodIPs: []string{"10.0.0.7", "fd00::7"},
}

// plainContainer is the configuration of newPod's container.
// record is what the container was created with, as JSON.
func record(c *corev1.Container) string {
	resources, _ := json.Marshal(plan.ResourcesOf(&c.Resources))
	return `{"sandbox":"sandbox-1","index":0,"resources":` + string(resources) + `,"podRestartPolicy":"Always","restartedAt":"noon"}`
}

func plainContainer(c *corev1.Container) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 2},
		Image:    &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "example.com/app:v1"},
		Envs:     []*runtimeapi.KeyValue{{Key: "IP", Value: []byte("10.0.0.7,fd00::7")}},
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/data", HostPath: "/host/data", Readonly: true, RecursiveReadOnly: true,
				Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
			{ContainerPath: "/shared", HostPath: "/host/shared", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
			{ContainerPath: "/dev/termination-log", HostPath: "/host/log"},
		},
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-1",
			"io.kubernetes.container.name":   "app",
			"managedworkload.dev/managed-by": "shim", "managedworkload.dev/instance": "node-1", "managedworkload.dev/cluster": "cluster-1",
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash":                     "10efe2d8",
			"io.kubernetes.container.restartCount":             "2",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
			"managedworkload.dev/definition-hash":              plan.HashContainer(c),
			"managedworkload.dev/record":                       record(c),
		},
		LogPath: "app/2.log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE},
				},
				RunAsUser:     &runtimeapi.Int64Value{Value: 1234},
				MaskedPaths:   []string{"/proc/kcore"},
				ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
				Seccomp:       &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			},
		},
	}
}

func TestCreateContainerConfig(t *testing.T) {
	tests := map[string]struct {
		pod  func(*corev1.Pod, *corev1.Container)
		want func(*runtimeapi.ContainerConfig)
	}{
		"plain": {pod: func(*corev1.Pod, *corev1.Container) {}, want: func(*runtimeapi.ContainerConfig) {}},
		"process": {
			pod: func(_ *corev1.Pod, c *corev1.Container) {
				c.Command, c.Args, c.WorkingDir = []string{"run"}, []string{"fast"}, "/work"
				c.Stdin, c.StdinOnce, c.TTY = true, true, true
			},
			want: func(c *runtimeapi.ContainerConfig) {
				c.Command, c.Args, c.WorkingDir = []string{"run"}, []string{"fast"}, "/work"
				c.Stdin, c.StdinOnce, c.Tty = true, true, true
			},
		},
		"stop signal": {
			pod: func(_ *corev1.Pod, c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGRTMINPLUS1)}
			},
			want: func(c *runtimeapi.ContainerConfig) { c.StopSignal = runtimeapi.Signal_SIGRTMINPLUS1 },
		},
		"the pod's security": {
			pod: func(p *corev1.Pod, _ *corev1.Container) {
				p.Spec.HostPID = true
				p.Spec.SecurityContext = &corev1.PodSecurityContext{
					RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](1), FSGroup: ptr.To[int64](2), SupplementalGroups: []int64{3},
					SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict),
					SELinuxOptions:           &corev1.SELinuxOptions{Level: "pod"},
					SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					AppArmorProfile:          &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
				}
			},
			want: func(c *runtimeapi.ContainerConfig) {
				s := c.Linux.SecurityContext
				s.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE
				s.RunAsUser, s.RunAsGroup = &runtimeapi.Int64Value{}, &runtimeapi.Int64Value{Value: 1}
				s.SupplementalGroups, s.SupplementalGroupsPolicy = []int64{2, 3}, runtimeapi.SupplementalGroupsPolicy_Strict
				s.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "pod"}
				s.Seccomp.ProfileType = runtimeapi.SecurityProfile_RuntimeDefault
				s.Apparmor = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
				s.ApparmorProfile = "runtime/default" //nolint:staticcheck // older runtimes know only the name
			},
		},
		"the container's own security": {
			pod: func(p *corev1.Pod, c *corev1.Container) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{
					RunAsUser: ptr.To[int64](1), SELinuxOptions: &corev1.SELinuxOptions{Level: "pod"},
					SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
				}
				c.SecurityContext = &corev1.SecurityContext{
					RunAsUser: ptr.To[int64](7), RunAsGroup: ptr.To[int64](8), Privileged: new(true),
					ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
					Capabilities:    &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
					ProcMount:       ptr.To(corev1.UnmaskedProcMount),
					SELinuxOptions:  &corev1.SELinuxOptions{Level: "own"},
					SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a/b.json")},
					AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")},
				}
			},
			want: func(c *runtimeapi.ContainerConfig) {
				s := c.Linux.SecurityContext
				s.RunAsUser, s.RunAsGroup = &runtimeapi.Int64Value{Value: 7}, &runtimeapi.Int64Value{Value: 8}
				s.Privileged, s.ReadonlyRootfs, s.NoNewPrivs = true, true, true
				s.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"}, DropCapabilities: []string{"ALL"}}
				s.MaskedPaths, s.ReadonlyPaths = nil, nil
				s.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "own"}
				s.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/seccomp/a/b.json"}
				s.Apparmor = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "mine"}
				s.ApparmorProfile = "localhost/mine" //nolint:staticcheck // older runtimes know only the name
			},
		},
		"resources": {
			pod: func(_ *corev1.Pod, c *corev1.Container) {
				c.Resources = corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("4Gi")},
				}
			},
			want: func(c *runtimeapi.ContainerConfig) {
				c.Linux.Resources = &runtimeapi.LinuxContainerResources{
					CpuShares: 512, CpuPeriod: 100000, CpuQuota: 50000, MemoryLimitInBytes: 4 << 30, OomScoreAdj: 750,
				}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			fake.images = []*runtimeapi.Image{image("example.com/app:v1", ptr.To[int64](1234), "")}
			pod := newPod()
			tc.pod(pod, &pod.Spec.Containers[0])
			want := plainContainer(&pod.Spec.Containers[0])
			tc.want(want)
			if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions); err != nil {
				t.Fatal(err)
			}
			got := request[runtimeapi.CreateContainerRequest](t, fake, "CreateContainer")
			want.Annotations[annotationHash] = got.GetConfig().GetAnnotations()[annotationHash]
			if diff := cmp.Diff(want, got.GetConfig(), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.GetPodSandboxId() != "sandbox-1" || got.GetSandboxConfig().GetMetadata().GetAttempt() != 3 {
				t.Errorf("want sandbox-1, attempt 3, got %s, %v", got.GetPodSandboxId(), got.GetSandboxConfig().GetMetadata())
			}
			logs := filepath.Join(client.config.PodDir.LogDirectory(pod), "app")
			if info, err := os.Stat(logs); err != nil || !info.IsDir() {
				t.Errorf("no log directory: %v", err)
			}
		})
	}
}

// isConfigError is how a caller that does not know this package sees it.
func isConfigError(err error) bool {
	var e interface{ InvalidConfig() bool }
	return errors.As(err, &e) && e.InvalidConfig()
}

// An image is mounted by what the runtime calls it, which the template's name goes with.
// (kubelet kuberuntime_manager.go:getImageVolumes)
func TestMountsOfImages(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/h"}}},
		{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "files:1"}}},
	}}}
	pod.Annotations = map[string]string{"a": "b"}
	got := mounts(pod, []poddir.Mount{
		{ContainerPath: "/h", HostPath: "/h"}, {ContainerPath: "/v", Image: "v", ImageSubPath: "etc", ReadOnly: true},
	}, map[string]string{"v": "sha256:7"})
	want := []*runtimeapi.Mount{{ContainerPath: "/h", HostPath: "/h"}, {
		ContainerPath: "/v", Readonly: true, ImageSubPath: "etc",
		Image: &runtimeapi.ImageSpec{Image: "sha256:7", UserSpecifiedImage: "files:1", Annotations: pod.Annotations},
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestCreateContainerRefuses(t *testing.T) {
	nonRoot := func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)} }
	tests := map[string]struct {
		container func(*corev1.Container)
		image     *runtimeapi.Image
		want      string
	}{
		"root by the image": {
			container: nonRoot, image: image("example.com/app:v1", ptr.To[int64](0), ""),
			want: `container has runAsNonRoot and image will run as root (pod: "web_default(uid-1)", container: app)`,
		},
		"root, as the image says nothing": {
			container: nonRoot, image: image("example.com/app:v1", nil, ""),
			want: `container has runAsNonRoot and image will run as root (pod: "web_default(uid-1)", container: app)`,
		},
		"a name": {
			container: nonRoot, image: image("example.com/app:v1", nil, "nobody"),
			want: `container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root (pod: "web_default(uid-1)", container: app)`,
		},
		"root by the template": {
			container: func(c *corev1.Container) {
				nonRoot(c)
				c.SecurityContext.RunAsUser = ptr.To[int64](0)
			},
			image: image("example.com/app:v1", ptr.To[int64](5), ""),
			want:  `container's runAsUser breaks non-root policy (pod: "web_default(uid-1)", container: app)`,
		},
		"seccomp without a file": {
			container: func(c *corev1.Container) {
				c.SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}
			},
			image: image("example.com/app:v1", nil, ""),
			want:  "localhostProfile must be set",
		},
		"seccomp outside of the directory": {
			container: func(c *corev1.Container) {
				c.SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{
					Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("../shadow"),
				}}
			},
			image: image("example.com/app:v1", nil, ""),
			want:  "leaves the directory",
		},
		"unknown stop signal": {
			container: func(c *corev1.Container) {
				c.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.Signal("SIGNONSENSE"))}
			},
			image: image("example.com/app:v1", nil, ""),
			want:  `unknown stop signal "SIGNONSENSE"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fake, client := newFake(t)
			fake.images = []*runtimeapi.Image{tc.image}
			pod := newPod()
			tc.container(&pod.Spec.Containers[0])
			_, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !isConfigError(err) {
				t.Errorf("want the configuration error %q, got %v", tc.want, err)
			}
			if len(fake.containers) != 0 {
				t.Error("a container was created")
			}
		})
	}
}

func TestNonRootIsAllowed(t *testing.T) {
	fake, client := newFake(t)
	fake.images = []*runtimeapi.Image{image("example.com/app:v1", ptr.To[int64](5), "")}
	pod := newPod()
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions); err != nil {
		t.Error(err)
	}
}

func TestUserNameOfTheImage(t *testing.T) {
	fake, client := newFake(t)
	fake.images = []*runtimeapi.Image{image("example.com/app:v1", nil, "nobody")}
	pod := newPod()
	if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions); err != nil {
		t.Fatal(err)
	}
	got := request[runtimeapi.CreateContainerRequest](t, fake, "CreateContainer").GetConfig().GetLinux().GetSecurityContext()
	if got.GetRunAsUser() != nil || got.GetRunAsUsername() != "nobody" {
		t.Errorf("want the user nobody, got %v %q", got.GetRunAsUser(), got.GetRunAsUsername())
	}
}

// A runtime that drops the stop signal shows it before the container is started.
func TestDroppedStopSignal(t *testing.T) {
	fake, client := newFake(t)
	for drop, want := range map[bool]string{false: "SIGUSR1", true: "SIGTERM"} {
		fake.set(func() { fake.dropSignal = drop })
		pod := newPod()
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
		id, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := client.ContainerStatus(t.Context(), id); err != nil || s.StopSignal != want {
			t.Errorf("want %s, got %s, %v", want, s.StopSignal, err)
		}
	}
}

func TestCreateContainerFails(t *testing.T) {
	fake, client := newFake(t)
	fake.fail["CreateContainer"] = status.Error(codes.Unknown, "no space left")
	pod := newPod()
	_, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions)
	if status.Code(err) != codes.Unknown || isConfigError(err) {
		t.Errorf("want the runtime's error, got %v", err)
	}
}
