// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// userNamespace of a pod's sandbox and containers; the node's unless hostUsers is
// false. (kubelet userns_manager.go:GetOrCreateUserNamespaceMappings)
func (c *Client) userNamespace(ctx context.Context, pod *corev1.Pod) (*runtimeapi.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	if err := c.CanIsolateUsers(ctx, pod); err != nil {
		return nil, err
	}
	ids, err := c.config.PodDir.UserNamespace(pod)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD,
		Uids: []*runtimeapi.IDMapping{{HostId: ids.First, Length: ids.Length}},
		Gids: []*runtimeapi.IDMapping{{HostId: ids.First, Length: ids.Length}},
	}, nil
}

// CanIsolateUsers returns nil when the pod's runtime handler has user namespaces or the
// pod asks for none; the error has the kubelet's words.
func (c *Client) CanIsolateUsers(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil
	}
	handler, err := runtimeHandler(pod)
	if err != nil {
		return err
	}
	supported, err := c.handlerIsolatesUsers(ctx, handler)
	if supported {
		return nil
	}
	message := "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	if handler != "" {
		message = fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", handler)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", message, err)
	}
	return errors.New(message)
}

// handlerIsolatesUsers asks the runtime. (kubelet
// kubelet_getters.go:HandlerSupportsUserNamespaces)
func (c *Client) handlerIsolatesUsers(ctx context.Context, name string) (bool, error) {
	s, err := invoke(ctx, readyTimeout, "ask the runtime's status", c.runtime.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return false, err
	}
	for _, handler := range s.GetRuntimeHandlers() {
		if handler.GetName() == name {
			return handler.GetFeatures().GetUserNamespaces(), nil
		}
	}
	if len(s.GetRuntimeHandlers()) == 0 {
		return false, nil // a runtime that does not know the question
	}
	return false, fmt.Errorf("the handler %q is not known", name)
}

// mapped has the files of mounts seen in the container with the IDs that they have on
// the node. (kubelet
// kuberuntime_container_linux.go:applyPlatformSpecificContainerConfig)
func mapped(mounts []*runtimeapi.Mount, users *runtimeapi.UserNamespace) []*runtimeapi.Mount {
	for _, mount := range mounts {
		mount.UidMappings, mount.GidMappings = users.GetUids(), users.GetGids()
	}
	return mounts
}
