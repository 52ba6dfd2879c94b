// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

// entry is an entry of a trace.
type entry = recordings.Entry

// fakeRuntime behaves as a case says and keeps a trace.
type fakeRuntime struct {
	internalapi.RuntimeService
	mu         sync.Mutex
	start      time.Time
	trace      []entry
	containers []*fakeContainer
	sandboxes  []*fakeSandbox
	hooks      map[string]recordings.Hook
	images     map[string]bool

	pullError, createError, startError map[string]string
	runError, statusError              string
}

type fakeContainer struct {
	runtimeapi.ContainerStatus
	sandbox                string
	stopSeconds            float64
	stopError, removeError string
}

type fakeSandbox struct {
	runtimeapi.PodSandboxStatus
	stopError string
}

// kindError makes the error of a kind.
func kindError(kind string) error {
	switch kind {
	case "":
		return nil
	case "NotFound":
		return status.Error(codes.NotFound, "container not found")
	case "Unknown":
		return status.Error(codes.Unknown, "runtime exploded")
	case "DeadlineExceeded":
		return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	case "Unavailable":
		return status.Error(codes.Unavailable, "connection refused")
	case "PlainNotFound":
		return errors.New("container not found")
	default:
		return errors.New("plain failure")
	}
}

func (f *fakeRuntime) record(op string, e entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e["op"], e["t"] = op, time.Since(f.start).Seconds()
	f.trace = append(f.trace, e)
}

func (f *fakeRuntime) find(id string) *fakeContainer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		if c.Id == id {
			return c
		}
	}
	return nil
}

func (f *fakeRuntime) nameOf(id string) string {
	if c := f.find(id); c != nil {
		return c.Metadata.Name
	}
	return ""
}

func pause(s float64) {
	if s > 0 {
		time.Sleep(time.Duration(s * float64(time.Second)))
	}
}

func (f *fakeRuntime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: cases.RuntimeName, RuntimeVersion: "0.1.0", RuntimeApiVersion: "0.1.0"}, nil
}

func (f *fakeRuntime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{}, nil
}

func (f *fakeRuntime) StopContainer(_ context.Context, id string, timeout int64) error {
	f.record("StopContainer", entry{"container": f.nameOf(id), "id": id, "timeout": float64(timeout)})
	c := f.find(id)
	kind := "NotFound"
	if c != nil {
		kind = c.stopError
		if kind != "NotFound" && kind != "PlainNotFound" {
			pause(min(c.stopSeconds, float64(timeout)))
		}
	}
	f.record("StopContainerEnd", entry{"container": f.nameOf(id), "id": id, "error": kind})
	if kind == "" {
		c.State, c.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano()
	}
	return kindError(kind)
}

func (f *fakeRuntime) ExecSync(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
	f.record("ExecSync", entry{"container": f.nameOf(id), "id": id, "cmd": cmd, "timeoutSeconds": timeout.Seconds()})
	hook := f.hooks[strings.Join(cmd, "/")]
	pause(hook.Seconds)
	if hook.Error != "" {
		return []byte("hook output"), nil, errors.New(hook.Error)
	}
	return nil, nil, nil
}

// Do answers the requests of hooks.
func (f *fakeRuntime) Do(req *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(req.URL.Path, "/")
	_, name, _ := strings.Cut(path, "/")
	f.record("HTTPRequest", entry{"container": name, "method": req.Method, "url": req.URL.String()})
	hook := f.hooks[path]
	pause(hook.Seconds)
	switch {
	case hook.Error == "http-on-https" && req.URL.Scheme == "https":
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: errors.New("http: server gave HTTP response to HTTPS client")}
	case hook.Error != "" && hook.Error != "http-on-https":
		return nil, errors.New(hook.Error)
	}
	return &http.Response{StatusCode: max(hook.HTTPStatus, http.StatusOK), Body: http.NoBody, Request: req}, nil
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	c := f.find(id)
	if c == nil {
		return nil, fmt.Errorf("container %q not found", id)
	}
	return &runtimeapi.ContainerStatusResponse{Status: &c.ContainerStatus}, nil
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*runtimeapi.Container
	for _, c := range f.containers {
		if filter.GetId() != "" && filter.GetId() != c.Id || filter.GetState() != nil && filter.GetState().State != c.State ||
			!matches(filter.GetLabelSelector(), c.Labels) {
			continue
		}
		out = append(out, &runtimeapi.Container{
			Id: c.Id, PodSandboxId: c.sandbox, Metadata: c.Metadata, Image: c.Image, ImageRef: c.ImageRef, State: c.State,
			CreatedAt: c.CreatedAt, Labels: c.Labels, Annotations: c.Annotations,
		})
	}
	return out, nil
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	var out []*runtimeapi.PodSandbox
	for _, s := range f.sandboxes {
		if filter.GetState() == nil || filter.GetState().State == s.State {
			if matches(filter.GetLabelSelector(), s.Labels) {
				out = append(out, &runtimeapi.PodSandbox{Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels})
			}
		}
	}
	return out, nil
}

func (f *fakeRuntime) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if f.statusError != "" {
		return nil, kindError(f.statusError)
	}
	for _, s := range f.sandboxes {
		if s.Id == id {
			return &runtimeapi.PodSandboxStatusResponse{Status: &s.PodSandboxStatus}, nil
		}
	}
	return nil, fmt.Errorf("pod sandbox %q not found", id)
}

func (f *fakeRuntime) RunPodSandbox(_ context.Context, config *runtimeapi.PodSandboxConfig, _ string) (string, error) {
	m := config.Metadata
	f.record("RunPodSandbox", entry{"attempt": m.Attempt, "error": f.runError})
	if f.runError != "" {
		return "", kindError(f.runError)
	}
	s := &fakeSandbox{PodSandboxStatus: runtimeapi.PodSandboxStatus{
		Id: fmt.Sprintf("%s_%s_%s_%d", m.Name, m.Namespace, m.Uid, m.Attempt), Metadata: m, Labels: config.Labels,
		State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "192.168.192.168"},
		Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: config.Linux.GetSecurityContext().GetNamespaceOptions()}},
	}}
	f.sandboxes = slices.Insert(f.sandboxes, 0, s)
	return s.Id, nil
}

func (f *fakeRuntime) StopPodSandbox(_ context.Context, id string) error {
	kind := ""
	for _, s := range f.sandboxes {
		if s.Id == id {
			if kind = s.stopError; kind == "" {
				s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
			}
		}
	}
	f.record("StopPodSandbox", entry{"sandboxID": id, "error": kind})
	return kindError(kind)
}

func (f *fakeRuntime) RemovePodSandbox(_ context.Context, id string) error {
	f.record("RemovePodSandbox", entry{"sandboxID": id, "error": ""})
	f.sandboxes = slices.DeleteFunc(f.sandboxes, func(s *fakeSandbox) bool { return s.Id == id })
	return nil
}

func (f *fakeRuntime) CreateContainer(_ context.Context, sandbox string, c *runtimeapi.ContainerConfig, s *runtimeapi.PodSandboxConfig) (string, error) {
	name, attempt := c.Metadata.Name, c.Metadata.Attempt
	kind := f.createError[name]
	f.record("CreateContainer", entry{"container": name, "attempt": attempt, "sandboxID": sandbox, "sandboxAttempt": s.Metadata.Attempt, "error": kind})
	if kind != "" {
		return "", kindError(kind)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	created := &fakeContainer{sandbox: sandbox, ContainerStatus: runtimeapi.ContainerStatus{
		Id: fmt.Sprintf("%s_%s_%d", sandbox, name, attempt), Metadata: c.Metadata, Labels: c.Labels, Annotations: c.Annotations,
		State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(), Image: c.Image, ImageRef: c.Image.GetImage(),
	}}
	f.containers = slices.Insert(f.containers, 0, created)
	return created.Id, nil
}

func (f *fakeRuntime) StartContainer(_ context.Context, id string) error {
	c := f.find(id)
	kind := f.startError[c.Metadata.Name]
	f.record("StartContainer", entry{"container": c.Metadata.Name, "id": id, "error": kind})
	if kind == "" {
		c.State, c.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	}
	return kindError(kind)
}

func (f *fakeRuntime) RemoveContainer(_ context.Context, id string) error {
	kind := ""
	if c := f.find(id); c != nil {
		kind = c.removeError
	}
	f.record("RemoveContainer", entry{"container": f.nameOf(id), "id": id, "error": kind})
	if kind == "" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.containers = slices.DeleteFunc(f.containers, func(c *fakeContainer) bool { return c.Id == id })
	}
	return kindError(kind)
}

// fakeImages are the images of a runtime.
type fakeImages struct {
	internalapi.ImageManagerService
	f *fakeRuntime
}

func (i fakeImages) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	if !i.f.images[image.Image] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: image.Image, Spec: image, RepoTags: []string{image.Image}}}, nil
}

func (i fakeImages) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return nil, nil
}

func (i fakeImages) PullImage(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	kind := i.f.pullError[image.Image]
	i.f.record("PullImage", entry{"image": image.Image, "error": kind})
	if kind != "" {
		return "", kindError(kind)
	}
	i.f.images[image.Image] = true
	return image.Image, nil
}
