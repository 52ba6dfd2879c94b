// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/localstack"
)

// Away kills the shim and the containerd of a node. Its containers run on; the lease of its
// shim expires 40 seconds after it was renewed last. Back ends that, and the test's end.
func (e *Env) Away(t *testing.T, node *localstack.Node) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		if err := startNode(ctx, node); err != nil {
			t.Errorf("start node %s again: %v", node.NodeName(), err)
		}
	})
	if err := errors.Join(node.Shim.Kill(t.Context()), node.Containerd.Kill(t.Context())); err != nil {
		t.Fatalf("kill node %s: %v", node.NodeName(), err)
	}
}

// Back starts the containerd and the shim of a node again.
func (e *Env) Back(t *testing.T, node *localstack.Node) {
	t.Helper()
	if err := startNode(t.Context(), node); err != nil {
		t.Fatalf("start node %s again: %v", node.NodeName(), err)
	}
}

// startNode starts what does not run.
func startNode(ctx context.Context, node *localstack.Node) error {
	for _, c := range []*localstack.Component{node.Containerd, node.Shim} {
		if c.Running() {
			continue
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Processes are those of the workload's running containers on the node, by container:
// their PIDs as the runtime knows them.
func (w *Workload) Processes() map[string]int {
	w.t.Helper()
	processes, err := w.processes()
	if err != nil {
		w.t.Fatalf("processes on %s: %v", w.node.NodeName(), err)
	}
	return processes
}

func (w *Workload) processes() (processes map[string]int, err error) {
	cri, err := w.node.CRI()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cri.Close()) }()
	list, err := cri.ListContainers(w.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil {
		return nil, err
	}
	processes = map[string]int{}
	for _, c := range list.GetContainers() {
		status, err := cri.ContainerStatus(w.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId(), Verbose: true})
		if err != nil {
			return nil, err
		}
		var info struct {
			PID int `json:"pid"`
		}
		if err := json.Unmarshal([]byte(status.GetInfo()["info"]), &info); err != nil || info.PID == 0 {
			return nil, fmt.Errorf("container %s: PID in %q: %w", c.GetMetadata().GetName(), status.GetInfo()["info"], err)
		}
		processes[c.GetMetadata().GetName()] = info.PID
	}
	return processes, nil
}
