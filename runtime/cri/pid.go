// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerProcess is the process ID, on the node, of a container's first process, and
// the cgroup it was created in, in the runtime's notation (empty if it does not say).
// containerd and CRI-O report both in the verbose status; an error says that the
// runtime reports no process.
func (c *Client) ContainerProcess(ctx context.Context, id string) (pid int, cgroup string, err error) {
	operation := quote("read the verbose status of container", id)
	r, err := invoke(ctx, c.callTimeout, operation, c.runtime.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, "", err
	}
	var info struct {
		PID  int `json:"pid"`
		Spec struct {
			Linux struct {
				CgroupsPath string `json:"cgroupsPath"`
			} `json:"linux"`
		} `json:"runtimeSpec"`
	}
	if err := json.Unmarshal([]byte(r.GetInfo()["info"]), &info); err != nil {
		return 0, "", badAnswer(operation, "the runtime's answer is not JSON: "+err.Error())
	}
	if info.PID <= 0 {
		return 0, "", badAnswer(operation, "the runtime gave no process")
	}
	return info.PID, info.Spec.Linux.CgroupsPath, nil
}
