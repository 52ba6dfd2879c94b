// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// CreateContainer implements CRI.
func (r *Runtime) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	if err := r.takes(ctx, "CreateContainer"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	config := req.GetConfig()
	name := config.GetMetadata().GetName()
	kind, err := r.fail("CreateContainer", name)
	r.record("CreateContainer", name, "sandbox=%s %s %s error=%q", req.GetPodSandboxId(),
		r.container(config), r.sandboxOf(req.GetSandboxConfig()), kind)
	if err != nil {
		return nil, err
	}
	image := config.GetImage().GetImage()
	c := &Container{
		ContainerStatus: plan.ContainerStatus{
			ID: r.containerID(req), Name: name, SandboxID: req.GetPodSandboxId(), RestartCount: int(config.GetMetadata().GetAttempt()),
			State: plan.ContainerCreated, CreatedAt: r.now(), Image: image, ImageRef: image, ImageID: image,
			LogPath:    filepath.Join(req.GetSandboxConfig().GetLogDirectory(), config.GetLogPath()),
			StopSignal: runtimeapi.Signal_SIGTERM.String(),
		},
		Script: *r.script(name), Labels: config.GetLabels(), Annotations: config.GetAnnotations(), mounts: config.GetMounts(),
	}
	if len(c.Runs) > 0 {
		c.run = c.Runs[min(r.instances[name], len(c.Runs))-1]
	}
	if r.asRecorded {
		c.StopSignal = "" // it does not tell
	}
	if r.Created != nil {
		r.Created(c)
	}
	r.Containers = slices.Insert(r.Containers, 0, c)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.ID}, nil
}

// hostsFile is mounted by what stands around the runtime manager in the kubelet.
const hostsFile = "/etc/hosts"

// container describes all of a container's configuration, but for what the
// node's own places decide: the hosts file, and the host's side of mounts.
func (r *Runtime) container(config *runtimeapi.ContainerConfig) string {
	config = proto.CloneOf(config)
	config.Mounts = slices.DeleteFunc(config.Mounts, func(m *runtimeapi.Mount) bool { return m.ContainerPath == hostsFile })
	for _, mount := range config.Mounts {
		mount.HostPath = ""
	}
	// The kubelet has them in the order of a directory.
	slices.SortFunc(config.GetLinux().GetResources().GetHugepageLimits(), func(a, b *runtimeapi.HugepageLimit) int {
		return cmp.Compare(a.GetPageSize(), b.GetPageSize())
	})
	keys := kubeletKeys(config.GetLabels(), config.GetAnnotations())
	config.Labels, config.Annotations = nil, nil
	return keys + " " + r.text(config)
}

// text writes a message in one line, with the agent's folder taken out.
func (r *Runtime) text(m proto.Message) string {
	return strings.ReplaceAll(prototext.MarshalOptions{}.Format(m), r.root, "")
}

// kubeletKeys are the labels and annotations that the kubelet writes: a kubelet
// that took over, or a person's tools, read them.
func kubeletKeys(labels, annotations map[string]string) string {
	var out []string
	for _, m := range []map[string]string{labels, annotations} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if short, ok := strings.CutPrefix(key, "io.kubernetes."); ok {
				out = append(out, short+"="+m[key])
			}
		}
	}
	return strings.Join(out, " ")
}

// StartContainer implements CRI. The container's log begins.
func (r *Runtime) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	if err := r.takes(ctx, "StartContainer"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		r.record("StartContainer", "", "%s", req.GetContainerId())
		return nil, err
	}
	kind, err := r.fail("StartContainer", c.Name, c.ID)
	r.record("StartContainer", c.Name, "%s error=%q", c.ID, kind)
	if err != nil {
		return nil, err
	}
	c.State, c.StartedAt = plan.ContainerRunning, r.now()
	if c.run.Seconds != nil {
		c.exits = time.Now().Add(seconds(*c.run.Seconds))
	}
	if err := r.writeLogs(c); err != nil {
		return nil, fmt.Errorf("begin the log: %w", err)
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer implements CRI: it waits until the container has left by itself,
// or kills it by force when the time is over. A failing call waits as long and
// changes nothing, as when the runtime lost its shim.
func (r *Runtime) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		r.record("StopContainer", "", "%s timeout=%d is not there", req.GetContainerId(), req.GetTimeout())
		r.mu.Unlock()
		return nil, err
	}
	kind, failure := r.failOf("StopContainer", c, c.StopError)
	r.record("StopContainer", c.Name, "%s timeout=%d error=%q", c.ID, req.GetTimeout(), kind)
	if kind == "NotFound" || kind == PlainNotFound {
		if !r.asRecorded {
			r.forget(c)
		}
		r.mu.Unlock()
		return nil, failure
	}
	wait, forced := c.leaves(req.GetTimeout())
	left := c.left()
	r.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-left:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	if failure != nil {
		return nil, failure
	}
	code := c.StopExitCode
	if forced && !c.SameExitCode || c.OOMKilled {
		code = killedExitCode
	}
	if c.lives() && !c.RunsOn {
		c.exit(time.Now(), code, c.OOMKilled)
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// forget removes a container that is gone without a trace.
func (r *Runtime) forget(c *Container) {
	c.exit(time.Now(), killedExitCode, false)
	r.Containers = slices.DeleteFunc(r.Containers, func(other *Container) bool { return other == c })
}

// leaves is how long it takes until a container has left that is being stopped,
// and whether it is by force.
func (c *Container) leaves(timeout int64) (wait time.Duration, forced bool) {
	if !c.lives() {
		return 0, false
	}
	wait = seconds(c.StopSeconds)
	if limit := time.Duration(timeout) * time.Second; wait > limit || c.IgnoresTerm {
		wait, forced = limit, true
	}
	if !c.exits.IsZero() {
		if own := time.Until(c.exits); own <= wait {
			return max(0, own), false
		}
	}
	return wait, forced
}

// RemoveContainer implements CRI: one that is gone is no error, as CRI demands.
func (r *Runtime) RemoveContainer(_ context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		r.record("RemoveContainer", "", "%s is not there", req.GetContainerId())
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	kind, err := r.failOf("RemoveContainer", c, c.RemoveError)
	r.record("RemoveContainer", c.Name, "%s error=%q", c.ID, kind)
	if err != nil {
		return nil, err
	}
	r.forget(c)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers implements CRI.
func (r *Runtime) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	if _, err := r.fail("ListContainers", ""); err != nil {
		return nil, err
	}
	out := &runtimeapi.ListContainersResponse{}
	f := req.GetFilter()
	for _, c := range r.Containers {
		if (f.GetId() != "" && f.GetId() != c.ID) || (f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.SandboxID) ||
			(f.GetState() != nil && f.GetState().GetState() != c.state()) || !matches(c.Labels, f.GetLabelSelector()) {
			continue
		}
		s := c.status()
		out.Containers = append(out.Containers, &runtimeapi.Container{
			Id: c.ID, PodSandboxId: c.SandboxID, Metadata: s.Metadata, Image: s.Image, ImageRef: c.ImageRef, ImageId: c.ImageID,
			State: s.State, CreatedAt: s.CreatedAt, Labels: c.Labels, Annotations: c.Annotations,
		})
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

// ContainerStatus implements CRI.
func (r *Runtime) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
}

// ExecSync implements CRI: the commands are hooks, "prestop <name>" or
// "poststart <name>".
func (r *Runtime) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	c, err := r.find(req.GetContainerId())
	if err != nil {
		r.record("ExecSync", "", "%s is not there", req.GetContainerId())
		r.mu.Unlock()
		return nil, err
	}
	r.record("ExecSync", c.Name, "%s %q timeout=%d", c.ID, req.GetCmd(), req.GetTimeout())
	hook := r.hook(req.GetCmd())
	r.mu.Unlock()
	if err := hook.take(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if hook.Error != "" {
		return nil, errorOf(hook.Error)
	}
	return &runtimeapi.ExecSyncResponse{Stdout: []byte("secret output"), Stderr: []byte("secret error"), ExitCode: hook.ExitCode}, nil
}

// takes lasts as long as a call does.
func (r *Runtime) takes(ctx context.Context, method string) error {
	if err := wait(ctx, r.CallSeconds[method]); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

type hook struct{ scenario.Hook }

func (r *Runtime) hook(words []string) hook {
	if len(words) != 2 {
		return hook{}
	}
	if words[0] == "prestop" {
		return hook{r.script(words[1]).PreStop}
	}
	return hook{r.script(words[1]).PostStart}
}

var errHook = errors.New("hook failed")

// take lasts as long as the hook.
func (h hook) take(ctx context.Context) error { return wait(ctx, h.Seconds) }

// wait waits unless ctx ends earlier.
func wait(ctx context.Context, n float64) error {
	if n <= 0 {
		return nil
	}
	until := time.Now().Add(seconds(n))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		if time.Now().Before(until) {
			return ctx.Err()
		}
	}
	return nil
}
