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

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// RunPodSandbox implements CRI.
func (r *Runtime) RunPodSandbox(ctx context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	if err := r.takes(ctx, "RunPodSandbox"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	config := req.GetConfig()
	kind, err := r.fail("RunPodSandbox")
	r.record("RunPodSandbox", "", "%s error=%q", r.sandboxOf(config), kind)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		SandboxStatus: plan.SandboxStatus{
			ID: r.sandboxID(config), State: plan.SandboxReady, Attempt: config.GetMetadata().GetAttempt(), CreatedAt: r.now(),
			Network: &plan.SandboxNetwork{IP: r.ip(), AdditionalIPs: r.additional},
		},
		Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		options: config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
	}
	if r.noIP {
		s.Network.IP, r.noIP = "", false
	}
	if r.mode {
		s.options.Network, r.mode = otherMode[s.options.Network], false
	}
	s.NetworkNamespace = s.options.GetNetwork().String()
	if r.noNetwork {
		s.Network, r.noNetwork = nil, false
	}
	r.Sandboxes = slices.Insert(r.Sandboxes, 0, s)
	r.fresh[s.ID] = true
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.ID}, nil
}

// sandboxOf describes all of a sandbox's configuration.
func (r *Runtime) sandboxOf(config *runtimeapi.PodSandboxConfig) string {
	config = proto.CloneOf(config)
	keys := kubeletKeys(config.GetLabels(), nil)
	config.Labels, config.Annotations = nil, nil
	return keys + " " + r.text(config)
}

func (r *Runtime) sandbox(id string) (*Sandbox, error) {
	for _, s := range r.Sandboxes {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q is not there", id)
}

// killRest kills by force what still runs in a sandbox, as containerd does.
func (r *Runtime) killRest(id string) {
	if !r.SandboxKills {
		return
	}
	r.settle()
	for _, c := range r.Containers {
		if c.SandboxID == id && c.lives() {
			c.exit(time.Now(), killedExitCode, false)
		}
	}
}

// StopPodSandbox implements CRI.
func (r *Runtime) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind, failure := r.fail("StopPodSandbox", req.GetPodSandboxId())
	s, err := r.sandbox(req.GetPodSandboxId())
	if err == nil && s.StopError != "" {
		kind, failure = s.StopError, ErrorOf(s.StopError)
	}
	r.record("StopPodSandbox", "", "%s error=%q", req.GetPodSandboxId(), kind)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	r.killRest(s.ID)
	s.State, s.Network = plan.SandboxNotReady, nil
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox implements CRI.
func (r *Runtime) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind, failure := r.fail("RemovePodSandbox", req.GetPodSandboxId())
	r.record("RemovePodSandbox", "", "%s error=%q", req.GetPodSandboxId(), kind)
	if _, err := r.sandbox(req.GetPodSandboxId()); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	r.killRest(req.GetPodSandboxId())
	r.Containers = slices.DeleteFunc(r.Containers, func(c *Container) bool { return c.SandboxID == req.GetPodSandboxId() })
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
	if _, err := r.fail("PodSandboxStatus"); err != nil && (r.fresh[s.ID] || r.asRecorded) {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: s.status()}, nil
}

// ListPodSandbox implements CRI.
func (r *Runtime) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	f := req.GetFilter()
	for _, s := range r.Sandboxes {
		status := s.status()
		if (f.GetId() != "" && f.GetId() != s.ID) || (f.GetState() != nil && f.GetState().GetState() != status.State) ||
			!matches(s.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Items = append(out.Items, &runtimeapi.PodSandbox{
			Id: s.ID, Metadata: status.Metadata, State: status.State, CreatedAt: status.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
		})
	}
	return out, nil
}
