// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerPID is the process ID, on the node, of a container's first process.
// containerd and CRI-O report it in the verbose status; an error says that the
// runtime does not.
func (c *Client) ContainerPID(ctx context.Context, id string) (int, error) {
	operation := quote("read the verbose status of container", id)
	r, err := invoke(ctx, c.config.CallTimeout, operation, c.runtime.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(r.GetInfo()["info"]), &info); err != nil {
		return 0, badAnswer(operation, "the runtime's answer is not JSON: "+err.Error())
	}
	if info.PID <= 0 {
		return 0, badAnswer(operation, "the runtime gave no process")
	}
	return info.PID, nil
}
