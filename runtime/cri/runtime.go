// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

// readyTimeout bounds the calls that only ask how the runtime is.
const readyTimeout = 10 * time.Second

// RuntimeInfo returns the runtime's name and version, and its cgroup driver:
// "cgroupfs", "systemd", or "" when the runtime does not report it (containerd
// before 2.0).
func (c *Client) RuntimeInfo(ctx context.Context) (name, version, cgroupDriver string, err error) {
	v, err := invoke(ctx, readyTimeout, "ask the runtime's version", c.runtime.Version, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", "", "", err
	}
	rc, err := invoke(ctx, readyTimeout, "ask the runtime's configuration", c.runtime.RuntimeConfig,
		&runtimeapi.RuntimeConfigRequest{})
	if runtimeerror.IsUnimplemented(err) {
		return v.GetRuntimeName(), v.GetRuntimeVersion(), "", nil
	}
	if err != nil {
		return "", "", "", err
	}
	return v.GetRuntimeName(), v.GetRuntimeVersion(), cgroupDriverName(rc.GetLinux()), nil
}

// cgroupDriverName is "" when the runtime has no Linux configuration.
func cgroupDriverName(linux *runtimeapi.LinuxRuntimeConfiguration) string {
	switch {
	case linux == nil:
		return ""
	case linux.GetCgroupDriver() == runtimeapi.CgroupDriver_CGROUPFS:
		return "cgroupfs"
	default:
		return "systemd"
	}
}

// RecursiveReadOnly reports whether the runtime's default handler can make mounts
// read-only in what is mounted below them, too. (kubelet
// kubelet_pods.go:resolveRecursiveReadOnly)
func (c *Client) RecursiveReadOnly(ctx context.Context) (bool, error) {
	s, err := invoke(ctx, readyTimeout, "ask the runtime's status", c.runtime.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return false, err
	}
	for _, handler := range s.GetRuntimeHandlers() {
		if handler.GetName() == "" {
			return handler.GetFeatures().GetRecursiveReadOnlyMounts(), nil
		}
	}
	return false, nil
}

// Ready returns nil when the runtime answers and says that it is ready.
// (kubelet kubelet.go:updateRuntimeUp)
func (c *Client) Ready(ctx context.Context) error {
	return c.condition(ctx, runtimeapi.RuntimeReady, "container runtime not ready")
}

// NetworkReady returns nil when the runtime's pod network is ready; the error's
// text is that of the kubelet's NetworkNotReady event.
func (c *Client) NetworkReady(ctx context.Context) error {
	return c.condition(ctx, runtimeapi.NetworkReady, "container runtime network not ready")
}

func (c *Client) condition(ctx context.Context, kind, message string) error {
	s, err := invoke(ctx, readyTimeout, "ask the runtime's status", c.runtime.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, condition := range s.GetStatus().GetConditions() {
		if condition.GetType() != kind {
			continue
		}
		if condition.GetStatus() {
			return nil
		}
		return fmt.Errorf("%s: %s=%t reason:%s message:%s", message,
			kind, condition.GetStatus(), condition.GetReason(), condition.GetMessage())
	}
	return fmt.Errorf("%s: the runtime does not report %s", message, kind)
}
