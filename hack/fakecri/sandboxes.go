// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox implements CRI.
func (r *Runtime) RunPodSandbox(_ context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := req.GetConfig()
	kind, err := r.fail("RunPodSandbox", "")
	r.record("RunPodSandbox", "", "%s error=%q", r.sandboxOf(config), kind)
	if err != nil {
		return nil, err
	}
	s := &runtimeapi.PodSandboxStatus{
		Id: r.newID("sandbox"), Metadata: config.GetMetadata(), State: runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: r.now(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: PodIP, AdditionalIps: r.additional},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}
	if r.noIP {
		s.Network.Ip, r.noIP = "", false
	}
	if r.mode {
		options := s.Linux.Namespaces.Options
		options.Network, r.mode = otherMode[options.Network], false
	}
	if r.noNetwork {
		s.Network, r.noNetwork = nil, false
	}
	r.sandboxes = append(r.sandboxes, s)
	r.fresh[s.Id] = true
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.Id}, nil
}

// sandboxOf describes all of a sandbox's configuration.
func (r *Runtime) sandboxOf(config *runtimeapi.PodSandboxConfig) string {
	config = proto.CloneOf(config)
	keys := kubeletKeys(config.GetLabels(), nil)
	config.Labels, config.Annotations = nil, nil
	return keys + " " + r.text(config)
}

func (r *Runtime) sandbox(id string) (*runtimeapi.PodSandboxStatus, error) {
	for _, s := range r.sandboxes {
		if s.Id == id {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q is not there", id)
}

// killRest kills by force what still runs in a sandbox, as containerd does.
func (r *Runtime) killRest(id string) {
	r.settle()
	for _, c := range r.containers {
		if c.sandbox == id && (c.State == runtimeapi.ContainerState_CONTAINER_RUNNING || c.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN) {
			c.exit(time.Now(), killedExitCode, false)
		}
	}
}

// StopPodSandbox implements CRI.
func (r *Runtime) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind, failure := r.fail("StopPodSandbox", "")
	r.record("StopPodSandbox", "", "%s error=%q", req.GetPodSandboxId(), kind)
	s, err := r.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	r.killRest(s.Id)
	s.State, s.Network = runtimeapi.PodSandboxState_SANDBOX_NOTREADY, nil
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox implements CRI.
func (r *Runtime) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind, failure := r.fail("RemovePodSandbox", "")
	r.record("RemovePodSandbox", "", "%s error=%q", req.GetPodSandboxId(), kind)
	if _, err := r.sandbox(req.GetPodSandboxId()); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	r.killRest(req.GetPodSandboxId())
	r.containers = slices.DeleteFunc(r.containers, func(c *container) bool { return c.sandbox == req.GetPodSandboxId() })
	r.dropSandbox(req.GetPodSandboxId())
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus implements CRI.
func (r *Runtime) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	// Only of a sandbox that is new: an observation may come from a cache.
	if _, err := r.fail("PodSandboxStatus", ""); err != nil && r.fresh[s.Id] {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: proto.CloneOf(s)}, nil
}

// ListPodSandbox implements CRI.
func (r *Runtime) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	f := req.GetFilter()
	for _, s := range slices.Backward(r.sandboxes) {
		if (f.GetId() != "" && f.GetId() != s.Id) || (f.GetState() != nil && f.GetState().GetState() != s.State) ||
			!matches(s.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Items = append(out.Items, &runtimeapi.PodSandbox{
			Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
		})
	}
	return out, nil
}
