// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestDialRefuses(t *testing.T) {
	good := Config{Endpoint: "unix:///run/x.sock", Instance: "n", PodDir: &fakePodDir{}}
	for name, change := range map[string]func(*Config){
		"tcp":              func(c *Config) { c.Endpoint = "tcp://127.0.0.1:1" },
		"relative path":    func(c *Config) { c.Endpoint = "unix://x.sock" },
		"empty":            func(c *Config) { c.Endpoint = "" },
		"no instance":      func(c *Config) { c.Instance = "" },
		"no pod directory": func(c *Config) { c.PodDir = nil },
	} {
		config := good
		change(&config)
		if _, err := Dial(t.Context(), config); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	good.Endpoint = "/run/x.sock"
	client, err := Dial(t.Context(), good)
	if err != nil {
		t.Fatalf("a bare path: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// A socket that is not there makes calls fail at once; once it is there, the
// client finds it by itself.
func TestReconnects(t *testing.T) {
	fake, client := newFake(t)
	fake.stop()
	if _, err := client.ListPods(t.Context()); status.Code(err) != codes.Unavailable {
		t.Fatalf("want Unavailable, got %v", err)
	}
	fake.listen(t)
	eventually(t, func() bool {
		_, err := client.ListPods(t.Context())
		return err == nil
	})
}

// eventually waits for something that another process does in its own time.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Every call but a pull ends by itself when the runtime hangs.
func TestHangingCalls(t *testing.T) {
	fake, client := newFake(t)
	client.callTimeout = 20 * time.Millisecond
	pod := newPod()
	calls := map[string]func(context.Context) error{
		"RunPodSandbox": func(ctx context.Context) error {
			_, err := client.RunSandbox(ctx, pod, 0)
			return err
		},
		"StopPodSandbox":   func(ctx context.Context) error { return client.StopSandbox(ctx, "s") },
		"RemovePodSandbox": func(ctx context.Context) error { return client.RemoveSandbox(ctx, "s") },
		"PodSandboxStatus": func(ctx context.Context) error {
			_, err := client.SandboxStatus(ctx, "s")
			return err
		},
		"ListPodSandbox": func(ctx context.Context) error {
			_, err := client.PodStatus(ctx, "u")
			return err
		},
		"ListContainers": func(ctx context.Context) error {
			_, err := client.ListPods(ctx)
			return err
		},
		"ContainerStatus": func(ctx context.Context) error {
			_, err := client.ContainerStatus(ctx, "c")
			return err
		},
		"StartContainer":  func(ctx context.Context) error { return client.StartContainer(ctx, "c") },
		"StopContainer":   func(ctx context.Context) error { return client.StopContainer(ctx, "c", 0) },
		"RemoveContainer": func(ctx context.Context) error { return client.RemoveContainer(ctx, "c") },
		"ImageStatus": func(ctx context.Context) error {
			_, err := client.ImageRef(ctx, "i")
			return err
		},
		"CreateContainer": func(ctx context.Context) error {
			_, err := client.CreateContainer(ctx, pod, &pod.Spec.Containers[0], plainOptions)
			return err
		},
	}
	for method, call := range calls {
		fake.set(func() { fake.hang = map[string]bool{method: true} })
		if err := call(t.Context()); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: want DeadlineExceeded, got %v", method, err)
		}
	}
}

func TestCancelledCall(t *testing.T) {
	fake, client := newFake(t)
	fake.hang["PullImage"] = true
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, func() bool { return len(fake.takeCalls()) > 0 })
		cancel()
	}()
	if _, err := client.PullImage(ctx, "i", newPod(), nil); status.Code(err) != codes.Canceled {
		t.Errorf("want Canceled, got %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	exec := func(timeout time.Duration) func() error {
		return func() error {
			_, _, _, err := client.ExecSync(t.Context(), "c", []string{"x"}, timeout)
			return err
		}
	}
	tests := map[string]struct {
		method string
		call   func() error
		want   time.Duration
	}{
		"lists": {"ListContainers", func() error {
			_, err := client.ListPods(t.Context())
			return err
		}, 2 * time.Minute},
		"sandbox": {"RunPodSandbox", func() error {
			_, err := client.RunSandbox(t.Context(), pod, 0)
			return err
		}, 4 * time.Minute},
		"stop": {"StopContainer", func() error {
			err := ignoreNotFound(client.StopContainer(t.Context(), "c", 3600))
			if got := request[runtimeapi.StopContainerRequest](t, fake, "StopContainer").GetTimeout(); got != 3600 {
				t.Errorf("the runtime was asked to wait %d s", got)
			}
			return err
		}, time.Hour + 2*time.Minute},
		"stop in a million years": {"StopContainer", func() error {
			return ignoreNotFound(client.StopContainer(t.Context(), "c", 1<<45))
		}, maxStopSeconds*time.Second + 2*time.Minute},
		"command":             {"ExecSync", exec(10 * time.Second), 12 * time.Second},
		"command without end": {"ExecSync", exec(0), 0},
		"pull": {"PullImage", func() error {
			_, err := client.PullImage(t.Context(), "i", pod, nil)
			return err
		}, 0},
	}
	for name, tc := range tests {
		if err := tc.call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		fake.set(func() {
			if got := fake.deadlines[tc.method]; got > tc.want || got < tc.want-10*time.Second {
				t.Errorf("%s: want a deadline in %v, got %v", name, tc.want, got)
			}
		})
	}
}

// CRI counts whole seconds, and 0 would be no limit at all.
func TestExecSync(t *testing.T) {
	fake, client := newFake(t)
	for timeout, want := range map[time.Duration]int64{
		0: 0, time.Millisecond: 1, time.Second: 1, 1500 * time.Millisecond: 2,
	} {
		stdout, stderr, code, err := client.ExecSync(t.Context(), "c", []string{"a", "b"}, timeout)
		if err != nil || string(stdout) != "out" || string(stderr) != "err" || code != 4 {
			t.Errorf("got %q, %q, %d, %v", stdout, stderr, code, err)
		}
		r := request[runtimeapi.ExecSyncRequest](t, fake, "ExecSync")
		if r.GetTimeout() != want || !cmp.Equal(r.GetCmd(), []string{"a", "b"}) || r.GetContainerId() != "c" {
			t.Errorf("timeout %v: want %d s, got %v", timeout, want, r)
		}
	}
}

// What the runtime says reaches the caller, with its code and its words.
func TestErrorsKeepTheirStatus(t *testing.T) {
	fake, client := newFake(t)
	fake.fail["StopContainer"] = status.Error(codes.ResourceExhausted, "the words")
	err := client.StopContainer(t.Context(), "c", 1)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("want ResourceExhausted, got %v", err)
	}
	var cause interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &cause) || cause.GRPCStatus().Message() != "the words" {
		t.Errorf("the runtime's words are lost: %v", err)
	}
	if !strings.Contains(err.Error(), `stop container "c"`) {
		t.Errorf("the error does not say what was asked: %v", err)
	}
}

// Only a gRPC NotFound says that something is gone.
func TestRemovalsOfWhatIsGone(t *testing.T) {
	fake, client := newFake(t)
	calls := map[string]func() error{
		"StopPodSandbox":   func() error { return client.StopSandbox(t.Context(), "s") },
		"RemovePodSandbox": func() error { return client.RemoveSandbox(t.Context(), "s") },
		"RemoveContainer":  func() error { return client.RemoveContainer(t.Context(), "c") },
	}
	for method, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		fake.set(func() { fake.fail[method] = status.Error(codes.Unknown, "not found") })
		if err := call(); status.Code(err) != codes.Unknown {
			t.Errorf("%s: want the error, got %v", method, err)
		}
	}
	if err := client.StopContainer(t.Context(), "c", 1); status.Code(err) != codes.NotFound {
		t.Errorf("StopContainer: want NotFound for the caller to judge, got %v", err)
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	fake, client := newFake(t)
	able := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}
	tests := map[string]struct {
		handlers []*runtimeapi.RuntimeHandler
		want     bool
	}{
		"no handlers": {},
		"default":     {handlers: []*runtimeapi.RuntimeHandler{{Name: "runc"}, {Features: able}}, want: true},
		"not default": {handlers: []*runtimeapi.RuntimeHandler{{Name: "runc", Features: able}, {}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fake.mu.Lock()
			fake.handlers = test.handlers
			fake.mu.Unlock()
			if got, err := client.RecursiveReadOnly(t.Context()); got != test.want || err != nil {
				t.Errorf("want %t, got %t, %v", test.want, got, err)
			}
		})
	}
}

func TestFeatures(t *testing.T) {
	fake, client := newFake(t)
	fake.handlers = []*runtimeapi.RuntimeHandler{
		{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}},
		{Name: "kata", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "old"},
	}
	want := Features{Handlers: map[string]HandlerFeatures{"": {RecursiveReadOnly: true}, "kata": {UserNamespaces: true}, "old": {}}}
	got, err := client.Features(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("features (-want +got)\n%s%v", diff, err)
	}
	fake.fail["Status"] = status.Error(codes.Unavailable, "away")
	if _, err := client.Features(t.Context()); err == nil {
		t.Error("features of a runtime that does not answer")
	}
}

func TestRuntimeInfo(t *testing.T) {
	_, client := newFake(t)
	// The fake has no RuntimeConfig, as containerd 1.6.
	name, version, driver, err := client.RuntimeInfo(t.Context())
	if name != "fake" || version != "v1" || driver != "" || err != nil {
		t.Errorf("got %q, %q, %q, %v", name, version, driver, err)
	}
	for want, linux := range map[string]*runtimeapi.LinuxRuntimeConfiguration{
		"":         nil,
		"systemd":  {CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD},
		"cgroupfs": {CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	} {
		if got := cgroupDriverName(linux); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestConditions(t *testing.T) {
	fake, client := newFake(t)
	fake.conditions = []*runtimeapi.RuntimeCondition{
		{Type: "RuntimeReady", Status: true},
		{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"},
	}
	if err := client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	const want = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
	if err := client.NetworkReady(t.Context()); err == nil || err.Error() != want {
		t.Errorf("want %q, got %v", want, err)
	}
	fake.set(func() { fake.conditions = nil })
	if err := client.Ready(t.Context()); err == nil {
		t.Error("a runtime that reports no condition is not ready")
	}
}

func TestImages(t *testing.T) {
	fake, client := newFake(t)
	fake.images = []*runtimeapi.Image{image("example.com/app:v1", ptr.To[int64](5), "")}
	if ref, err := client.ImageRef(t.Context(), "example.com/none"); ref != "" || err != nil {
		t.Errorf("an image that is not there: got %q, %v", ref, err)
	}
	if ref, err := client.ImageRef(t.Context(), "example.com/app:v1"); ref != "sha256:1" || err != nil {
		t.Errorf("got %q, %v", ref, err)
	}
	want := plan.Images{"example.com/app:v1": "sha256:1", "example.com/none": ""}
	if got := client.Images(t.Context(), []string{"example.com/app:v1", "example.com/none", "NOT A NAME"}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if size, err := client.ImageSize(t.Context(), "sha256:1"); size != 42 || err != nil {
		t.Errorf("got %d, %v", size, err)
	}
	fake.takeCalls()
	// The image was looked at: its user is known.
	pod := newPod()
	if _, err := client.CreateContainer(t.Context(), pod, &pod.Spec.Containers[0], plainOptions); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"CreateContainer"}, fake.takeCalls()); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if ref, err := client.PullImage(t.Context(), "example.com/app:v2", pod, nil); ref != "sha256:1" || err != nil {
		t.Errorf("got %q, %v", ref, err)
	}
	r := request[runtimeapi.PullImageRequest](t, fake, "PullImage")
	if r.GetImage().GetImage() != "example.com/app:v2" || r.GetSandboxConfig().GetMetadata().GetUid() != "uid-1" || r.GetAuth() != nil {
		t.Errorf("got %v", r)
	}
	if _, err := client.PullImage(t.Context(), "example.com/app:v2", pod, &images.Login{Username: "u", Password: "p"}); err != nil {
		t.Error(err)
	}
	auth := &runtimeapi.AuthConfig{Username: "u", Password: "p"}
	if diff := cmp.Diff(auth, request[runtimeapi.PullImageRequest](t, fake, "PullImage").GetAuth(), protocmp.Transform()); diff != "" {
		t.Errorf("credentials (-want +got)\n%s", diff)
	}
	if all, err := client.ListImages(t.Context()); err != nil || len(all) != 1 || all[0].ID != "sha256:1" {
		t.Errorf("images %v, error %v", all, err)
	}
	fake.set(func() { fake.fail["PullImage"] = status.Error(codes.Unknown, "no such host") })
	if _, err := client.PullImage(t.Context(), "i", pod, nil); status.Code(err) != codes.Unknown {
		t.Errorf("want the runtime's error, got %v", err)
	}
}
