// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"cmp"
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
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// The kinds of errors of the vectors that have no code of gRPC.
const (
	PlainNotFound = "PlainNotFound"
	Plain         = "Plain"
)

// ErrorOf makes the error that a kind of the vectors stands for.
func ErrorOf(kind string) error {
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
	case PlainNotFound:
		return errors.New("container not found")
	case Plain:
		return errors.New("plain failure")
	default:
		return fmt.Errorf("no error kind %q", kind)
	}
}

// Recorded is the runtime of the vectors, which keeps a trace in their words.
type Recorded struct {
	*Runtime
	// Hooks by "prestop/<container>" and "poststart/<container>".
	Hooks map[string]recordings.Hook

	begun   time.Time
	entries sync.Mutex
	entry   []recordings.Entry
}

// NewRecorded returns a runtime whose time begins now.
func NewRecorded(hooks map[string]recordings.Hook, images ...string) *Recorded {
	r := New(&scenario.Scenario{Scripts: map[string]*scenario.Script{}, Images: images}, "")
	r.asRecorded, r.SandboxKills = true, false
	return &Recorded{Runtime: r, Hooks: hooks, begun: time.Now()}
}

// Put adds a container that is older than those that are there.
func (r *Recorded) Put(c *Container) { r.Containers = append(r.Containers, c) }

// PutSandbox adds a sandbox that is older than those that are there.
func (r *Recorded) PutSandbox(s *Sandbox) { r.Sandboxes = append(r.Sandboxes, s) }

// Fail makes a method fail for a name or an ID, or for all if that is empty.
func (r *Recorded) Fail(method, of, kind string) { r.failures[method+"/"+of] = kind }

// FailAs makes methods fail as a case of syncpod-trace says.
func (r *Recorded) FailAs(in *recordings.SyncRuntime) {
	r.Fail("RunPodSandbox", "", in.RunPodSandboxError)
	r.Fail("PodSandboxStatus", "", in.PodSandboxStatusError)
	for method, kinds := range map[string]map[string]string{
		"PullImage": in.PullError, "CreateContainer": in.CreateError, "StartContainer": in.StartError,
	} {
		for of, kind := range kinds {
			r.Fail(method, of, kind)
		}
	}
}

// IDs are those of the containers and sandboxes that are left.
func (r *Recorded) IDs() (containers, sandboxes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.Containers {
		containers = append(containers, c.ID)
	}
	for _, s := range r.Sandboxes {
		sandboxes = append(sandboxes, s.ID)
	}
	return containers, sandboxes
}

// Observed is what a look at the runtime sees, the newest first.
func (r *Recorded) Observed() (containers []plan.ContainerStatus, sandboxes []plan.SandboxStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.Containers {
		containers = append(containers, c.ContainerStatus)
	}
	for _, s := range r.Sandboxes {
		sandboxes = append(sandboxes, s.SandboxStatus)
	}
	return containers, sandboxes
}

// Exit makes a container exit by itself.
func (r *Recorded) Exit(c *Container, code int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.exit(time.Now(), code, false)
}

// Trace is what was done until now.
func (r *Recorded) Trace() []recordings.Entry {
	r.entries.Lock()
	defer r.entries.Unlock()
	return slices.Clone(r.entry)
}

// Note adds an entry to the trace.
func (r *Recorded) Note(op string, e recordings.Entry) {
	r.entries.Lock()
	defer r.entries.Unlock()
	e["op"], e["t"] = op, time.Since(r.begun).Seconds()
	r.entry = append(r.entry, e)
}

// note adds an entry of a container by its ID, with the kind that the call fails with.
func (r *Recorded) note(op, id string, e recordings.Entry) {
	r.mu.Lock()
	e["container"], e["id"] = "", id
	if c, err := r.find(id); err == nil {
		e["container"] = c.Name
	}
	r.mu.Unlock()
	r.Note(op, e)
}

// kind is what a call is going to fail with.
func (r *Recorded) kind(method string, of ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind, _ := r.fail(method, of...)
	return kind
}

// Find returns a container, nil if it is not there.
func (r *Recorded) Find(id string) *Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, _ := r.find(id)
	return c
}

func (r *Runtime) containerID(req *runtimeapi.CreateContainerRequest) string {
	m := req.GetConfig().GetMetadata()
	if r.asRecorded {
		return fmt.Sprintf("%s_%s_%d", req.GetPodSandboxId(), m.GetName(), m.GetAttempt())
	}
	return r.newID(m.GetName())
}

func (r *Runtime) sandboxID(config *runtimeapi.PodSandboxConfig) string {
	if m := config.GetMetadata(); r.asRecorded {
		return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
	}
	return r.newID("sandbox")
}

func (r *Runtime) ip() string {
	if r.asRecorded {
		return "192.168.192.168"
	}
	return PodIP
}

// StopContainer implements CRI.
func (r *Recorded) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	id := req.GetContainerId()
	r.note("StopContainer", id, recordings.Entry{"timeout": float64(req.GetTimeout())})
	c := r.Find(id)
	if c == nil {
		r.note("StopContainerEnd", id, recordings.Entry{"error": "NotFound"})
		return nil, ErrorOf("NotFound")
	}
	out, err := r.Runtime.StopContainer(ctx, req)
	kind := r.kind("StopContainer", c.Name, id)
	switch {
	case err == nil:
		kind = ""
	case c.StopError != "":
		kind = c.StopError
	case kind == "":
		kind = err.Error()
	}
	r.note("StopContainerEnd", id, recordings.Entry{"error": kind})
	return out, err
}

// CreateContainer implements CRI.
func (r *Recorded) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	m := req.GetConfig().GetMetadata()
	r.Note("CreateContainer", recordings.Entry{
		"container": m.GetName(), "attempt": float64(m.GetAttempt()), "sandboxID": req.GetPodSandboxId(),
		"sandboxAttempt": float64(req.GetSandboxConfig().GetMetadata().GetAttempt()), "error": r.kind("CreateContainer", m.GetName()),
	})
	return r.Runtime.CreateContainer(ctx, req)
}

// StartContainer implements CRI.
func (r *Recorded) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	if c := r.Find(req.GetContainerId()); c != nil {
		r.note("StartContainer", c.ID, recordings.Entry{"error": r.kind("StartContainer", c.Name, c.ID)})
	}
	return r.Runtime.StartContainer(ctx, req)
}

// RemoveContainer implements CRI.
func (r *Recorded) RemoveContainer(ctx context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	id := req.GetContainerId()
	kind := r.kind("RemoveContainer", id)
	if c := r.Find(id); c != nil {
		kind = cmp.Or(c.RemoveError, kind)
	}
	r.note("RemoveContainer", id, recordings.Entry{"error": kind})
	return r.Runtime.RemoveContainer(ctx, req)
}

// RunPodSandbox implements CRI.
func (r *Recorded) RunPodSandbox(ctx context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	r.Note("RunPodSandbox", recordings.Entry{"attempt": float64(req.GetConfig().GetMetadata().GetAttempt()), "error": r.kind("RunPodSandbox")})
	return r.Runtime.RunPodSandbox(ctx, req)
}

// StopPodSandbox implements CRI.
func (r *Recorded) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	id := req.GetPodSandboxId()
	kind := r.kind("StopPodSandbox", id)
	r.mu.Lock()
	if s, err := r.sandbox(id); err == nil {
		kind = cmp.Or(s.StopError, kind)
	}
	r.mu.Unlock()
	r.Note("StopPodSandbox", recordings.Entry{"sandboxID": id, "error": kind})
	return r.Runtime.StopPodSandbox(ctx, req)
}

// RemovePodSandbox implements CRI.
func (r *Recorded) RemovePodSandbox(ctx context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.Note("RemovePodSandbox", recordings.Entry{"sandboxID": req.GetPodSandboxId(), "error": ""})
	return r.Runtime.RemovePodSandbox(ctx, req)
}

// PullImage implements CRI.
func (r *Recorded) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	image := req.GetImage().GetImage()
	r.Note("PullImage", recordings.Entry{"image": image, "error": r.kind("PullImage", image)})
	if _, err := r.Runtime.PullImage(ctx, req); err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: image}, nil
}

// ContainerStatus implements CRI.
func (r *Recorded) ContainerStatus(ctx context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if r.Find(req.GetContainerId()) == nil {
		return nil, fmt.Errorf("container %q not found", req.GetContainerId())
	}
	return r.Runtime.ContainerStatus(ctx, req)
}

// RunHook runs a hook's command. It is no method of CRI: there an error has no output.
func (r *Recorded) RunHook(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	words := make([]any, len(cmd))
	for i := range cmd {
		words[i] = cmd[i]
	}
	r.note("ExecSync", id, recordings.Entry{"cmd": words, "timeoutSeconds": timeout.Seconds()})
	h := r.Hooks[strings.Join(cmd, "/")]
	if err := wait(ctx, h.Seconds); err != nil {
		return nil, err
	}
	if h.Error != "" {
		return []byte("hook output"), errors.New(h.Error)
	}
	return nil, nil
}

// Do answers the requests of hooks.
func (r *Recorded) Do(req *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(req.URL.Path, "/")
	_, name, _ := strings.Cut(path, "/")
	r.Note("HTTPRequest", recordings.Entry{"container": name, "method": req.Method, "url": req.URL.String()})
	h := r.Hooks[path]
	if err := wait(req.Context(), h.Seconds); err != nil {
		return nil, err
	}
	switch {
	case h.Error == "http-on-https" && req.URL.Scheme == "https":
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: errors.New("http: server gave HTTP response to HTTPS client")}
	case h.Error != "" && h.Error != "http-on-https":
		return nil, errors.New(h.Error)
	}
	return &http.Response{StatusCode: max(h.HTTPStatus, http.StatusOK), Body: http.NoBody, Request: req}, nil
}
