// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/userns"
)

// fakeRuntime is a container runtime in memory that answers over a real socket.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	socket string

	mu              sync.Mutex
	server          *grpc.Server
	calls           []string                 // methods, in their order
	requests        map[string]any           // the last request of each method
	deadlines       map[string]time.Duration // what was left of the last call's time; 0: no deadline
	hang            map[string]bool          // methods that never answer
	fail            map[string]error         // methods that fail
	sandboxes       []*runtimeapi.PodSandboxStatus
	containers      []*fakeContainer
	images          []*runtimeapi.Image
	stats           []*runtimeapi.ContainerStats
	sandboxStats    []*runtimeapi.PodSandboxStats
	sandboxStatsErr error
	conditions      []*runtimeapi.RuntimeCondition
	handlers        []*runtimeapi.RuntimeHandler
	dropSignal      bool   // as containerd before 2.3
	verbose         string // what a verbose status says about a container
	events          chan *runtimeapi.ContainerEventResponse
	noEvents        bool // as containerd 1.6
	next            int
}

type fakeContainer struct {
	*runtimeapi.ContainerStatus
	sandbox string
}

// newFake returns a fake that listens, and a client of it.
func newFake(t *testing.T, change ...func(*Config)) (*fakeRuntime, *Client) {
	t.Helper()
	// A socket's path must be short.
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f := &fakeRuntime{
		socket:   filepath.Join(dir, "s"),
		requests: map[string]any{}, deadlines: map[string]time.Duration{},
		hang: map[string]bool{}, fail: map[string]error{},
		events: make(chan *runtimeapi.ContainerEventResponse),
	}
	f.listen(t)
	t.Cleanup(f.stop)
	config := Config{
		Endpoint: "unix://" + f.socket, Instance: "node-1",
		SeccompRoot: "/seccomp", PodDir: &fakePodDir{logs: t.TempDir()}, Differences: plan.AllDifferences(),
	}
	for _, c := range change {
		c(&config)
	}
	client, err := Dial(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	client.SetClusterID("cluster-1")
	client.node = nodeResources{memory: 8 << 30, maskedPaths: []string{"/proc/kcore"}}
	client.settle = 20 * time.Millisecond
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, client
}

func (f *fakeRuntime) listen(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(f.intercept), grpc.MaxRecvMsgSize(maxMessageSize), grpc.MaxSendMsgSize(maxMessageSize))
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	runtimeapi.RegisterImageServiceServer(server, f)
	f.mu.Lock()
	f.server = server
	f.mu.Unlock()
	go func() {
		// One that is stopped before it has begun is no failure.
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	}()
}

func (f *fakeRuntime) stop() {
	f.mu.Lock()
	server := f.server
	f.mu.Unlock()
	server.Stop()
}

func (f *fakeRuntime) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	f.mu.Lock()
	f.calls = append(f.calls, method)
	f.requests[method] = request
	f.deadlines[method] = 0
	if deadline, ok := ctx.Deadline(); ok {
		f.deadlines[method] = time.Until(deadline)
	}
	hang, fail := f.hang[method], f.fail[method]
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if fail != nil {
		return nil, fail
	}
	return handler(ctx, request)
}

// takeCalls returns the methods called since the last time.
func (f *fakeRuntime) takeCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// set changes the fake while it serves.
func (f *fakeRuntime) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func request[T any](t *testing.T, f *fakeRuntime, method string) *T {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.requests[method].(*T)
	if !ok {
		t.Fatalf("%s was not called", method)
	}
	return r
}

func (f *fakeRuntime) id(kind string) string {
	f.next++
	return fmt.Sprintf("%s-%d", kind, f.next)
}

func (f *fakeRuntime) RunPodSandbox(_ context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &runtimeapi.PodSandboxStatus{
		Id: f.id("sandbox"), Metadata: r.GetConfig().GetMetadata(), State: runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: int64(f.next), Labels: r.GetConfig().GetLabels(), Annotations: r.GetConfig().GetAnnotations(),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.7", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::7"}}},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: r.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}
	f.sandboxes = append(f.sandboxes, s)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.GetId()}, nil
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range f.sandboxes {
		if matches(s.GetLabels(), r.GetFilter().GetLabelSelector()) {
			out.Items = append(out.Items, &runtimeapi.PodSandbox{
				Id: s.GetId(), Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(),
				Labels: s.GetLabels(), Annotations: s.GetAnnotations(),
			})
		}
	}
	return out, nil
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (f *fakeRuntime) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if s.GetId() == r.GetPodSandboxId() {
			return &runtimeapi.PodSandboxStatusResponse{Status: s}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

func (f *fakeRuntime) StopPodSandbox(_ context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sandboxes {
		if s.GetId() == r.GetPodSandboxId() {
			s.State, s.Network = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, nil
			return &runtimeapi.StopPodSandboxResponse{}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

func (f *fakeRuntime) RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

func (f *fakeRuntime) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	config := r.GetConfig()
	c := &fakeContainer{sandbox: r.GetPodSandboxId(), ContainerStatus: &runtimeapi.ContainerStatus{
		Id: f.id("container"), Metadata: config.GetMetadata(), State: runtimeapi.ContainerState_CONTAINER_CREATED,
		CreatedAt: int64(f.next), Image: config.GetImage(), ImageRef: "example.com/app@sha256:1", ImageId: config.GetImage().GetImage(),
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(), Mounts: config.GetMounts(),
		LogPath:    filepath.Join(r.GetSandboxConfig().GetLogDirectory(), config.GetLogPath()),
		Resources:  &runtimeapi.ContainerResources{Linux: config.GetLinux().GetResources()},
		StopSignal: runtimeapi.Signal_SIGTERM,
	}}
	if s := config.GetStopSignal(); s != runtimeapi.Signal_RUNTIME_DEFAULT && !f.dropSignal {
		c.StopSignal = s
	}
	f.containers = append(f.containers, c)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.GetId()}, nil
}

func (f *fakeRuntime) find(id string) (*fakeContainer, error) {
	for _, c := range f.containers {
		if c.GetId() == id {
			return c, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (f *fakeRuntime) StartContainer(_ context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.State, c.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, c.GetCreatedAt()+1
	return &runtimeapi.StartContainerResponse{}, nil
}

func (f *fakeRuntime) StopContainer(_ context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.State, c.FinishedAt, c.ExitCode, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, c.GetCreatedAt()+2, 3, "Error"
	return &runtimeapi.StopContainerResponse{}, nil
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.containers {
		if c.GetId() == r.GetContainerId() {
			f.containers = append(f.containers[:i], f.containers[i+1:]...)
			return &runtimeapi.RemoveContainerResponse{}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (f *fakeRuntime) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	for _, c := range f.containers {
		if matches(c.GetLabels(), r.GetFilter().GetLabelSelector()) {
			out.Containers = append(out.Containers, &runtimeapi.Container{
				Id: c.GetId(), PodSandboxId: c.sandbox, Metadata: c.GetMetadata(), Image: c.GetImage(), State: c.GetState(),
				CreatedAt: c.GetCreatedAt(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
			})
		}
	}
	return out, nil
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.ContainerStatusResponse{Status: c.ContainerStatus}
	if r.GetVerbose() {
		response.Info = map[string]string{"info": f.verbose}
	}
	return response, nil
}

func (f *fakeRuntime) ExecSync(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return &runtimeapi.ExecSyncResponse{Stdout: []byte("out"), Stderr: []byte("err"), ExitCode: 4}, nil
}

func (f *fakeRuntime) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.images {
		if name := r.GetImage().GetImage(); name == i.GetId() || name == i.GetRepoTags()[0] {
			return &runtimeapi.ImageStatusResponse{Image: i}, nil
		}
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

func (f *fakeRuntime) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtimeapi.ListImagesResponse{Images: f.images}, nil
}

func (f *fakeRuntime) PullImage(context.Context, *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:1"}, nil
}

func (f *fakeRuntime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "fake", RuntimeVersion: "v1"}, nil
}

func (f *fakeRuntime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: f.conditions}, RuntimeHandlers: f.handlers}, nil
}

func (f *fakeRuntime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	f.mu.Lock()
	noEvents := f.noEvents
	f.mu.Unlock()
	if noEvents {
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents")
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case event := <-f.events:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

// fakePodDir is a place on the node of fixed names.
type fakePodDir struct {
	logs        string
	err         error
	usersErr    error
	hostnameErr error
}

func (d *fakePodDir) ContainerOptions(_ context.Context, _ *corev1.Pod, c *corev1.Container, podIPs []string, restartCount int) (poddir.Options, error) {
	return poddir.Options{
		Command: c.Command, Args: c.Args,
		Env: []poddir.EnvVar{{Name: "IP", Value: strings.Join(podIPs, ",")}},
		Mounts: []poddir.Mount{
			{ContainerPath: "/data", HostPath: "/host/data", ReadOnly: true, RecursiveReadOnly: true, Propagation: corev1.MountPropagationHostToContainer},
			{ContainerPath: "/shared", HostPath: "/host/shared", Propagation: corev1.MountPropagationBidirectional},
			{ContainerPath: "/dev/termination-log", HostPath: "/host/log"},
		},
		TerminationLog: "/host/log",
		LogPath:        fmt.Sprintf("%s/%d.log", c.Name, restartCount),
	}, d.err
}

func (d *fakePodDir) DNS(*corev1.Pod) (poddir.DNSConfig, error) {
	return poddir.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"svc.cluster.local"}, Options: []string{"ndots:5"}}, nil
}
func (d *fakePodDir) Hostname(pod *corev1.Pod) (string, error) { return pod.Name, d.hostnameErr }
func (d *fakePodDir) LogDirectory(pod *corev1.Pod) string {
	return filepath.Join(d.logs, string(pod.UID))
}
func (d *fakePodDir) CgroupParent(pod *corev1.Pod) string {
	return "/managedworkload/" + string(pod.UID)
}
func (d *fakePodDir) UserNamespace(*corev1.Pod) (userns.Range, error) {
	return userns.Range{First: 131072, Length: 65536}, d.usersErr
}

// newPod is a pod of one plain container.
func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "uid-1",
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{"kubectl.kubernetes.io/restartedAt": "noon"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers: []corev1.Container{{
				Name: "app", Image: "example.com/app:v1",
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
}

// image with a user by number or by name.
func image(tag string, uid *int64, username string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: "sha256:1", RepoTags: []string{tag}, Uid: int64Value(uid), Username: username, Size: 42}
}

var (
	errNotFound = status.Error(codes.NotFound, "gone")
	errUnknown  = status.Error(codes.Unknown, "no idea")
)
