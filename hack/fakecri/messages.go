// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (c *Container) state() runtimeapi.ContainerState {
	return runtimeapi.ContainerState(runtimeapi.ContainerState_value["CONTAINER_"+strings.ToUpper(string(c.State))])
}

// status is the container in a message of CRI.
func (c *Container) status() *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: c.ID, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(c.RestartCount)}, State: c.state(),
		CreatedAt: nanoseconds(c.CreatedAt), StartedAt: nanoseconds(c.StartedAt), FinishedAt: nanoseconds(c.FinishedAt),
		ExitCode: c.ExitCode, Reason: c.Reason, Image: &runtimeapi.ImageSpec{Image: c.Image}, ImageRef: c.ImageRef, ImageId: c.ImageID,
		Labels: c.Labels, Annotations: c.Annotations, Mounts: c.mounts, LogPath: c.LogPath,
		StopSignal: runtimeapi.Signal(runtimeapi.Signal_value[c.StopSignal]),
	}
}

// status is the sandbox in a message of CRI.
func (s *Sandbox) status() *runtimeapi.PodSandboxStatus {
	options := s.options
	if options == nil {
		options = &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode(runtimeapi.NamespaceMode_value[s.NetworkNamespace])}
	}
	return &runtimeapi.PodSandboxStatus{
		Id: s.ID, State: runtimeapi.PodSandboxState(runtimeapi.PodSandboxState_value["SANDBOX_"+string(s.State)]), CreatedAt: nanoseconds(s.CreatedAt),
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: s.Metadata.GetName(), Namespace: s.Metadata.GetNamespace(), Uid: s.Metadata.GetUid(), Attempt: s.Attempt,
		},
		Labels: s.Labels, Annotations: s.Annotations, Network: s.network(),
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
	}
}

func (s *Sandbox) network() *runtimeapi.PodSandboxNetworkStatus {
	if s.Network == nil {
		return nil
	}
	out := &runtimeapi.PodSandboxNetworkStatus{Ip: s.Network.IP}
	for _, ip := range s.Network.AdditionalIPs {
		out.AdditionalIps = append(out.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return out
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
