// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec runs a command of the test program in a running container, and returns what it
// printed. Its failure is an error.
func (w *Workload) Exec(container string, command ...string) (out string, err error) {
	w.t.Helper()
	cri, err := w.node.CRI()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, cri.Close()) }()
	list, err := cri.ListContainers(w.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{
			"io.kubernetes.pod.namespace": w.Namespace, "io.kubernetes.container.name": container,
		},
	}})
	if err != nil {
		return "", err
	}
	if n := len(list.GetContainers()); n != 1 {
		return "", fmt.Errorf("%d containers %s run", n, container)
	}
	response, err := cri.ExecSync(w.t.Context(), &runtimeapi.ExecSyncRequest{
		ContainerId: list.GetContainers()[0].GetId(), Cmd: append([]string{"/testprogram"}, command...), Timeout: 10,
	})
	if err != nil {
		return "", err
	}
	if response.GetExitCode() != 0 {
		return "", fmt.Errorf("%s: exit code %d: %s", strings.Join(command, " "), response.GetExitCode(), response.GetStderr())
	}
	return strings.TrimSuffix(string(response.GetStdout()), "\n"), nil
}

// AwaitExec waits until a command in the container prints what is wanted: no event reports
// what a container sees. It returns how long that took.
func (w *Workload) AwaitExec(want, container string, command ...string) time.Duration {
	w.t.Helper()
	start := time.Now()
	for {
		out, err := w.Exec(container, command...)
		if err == nil && out == want {
			return time.Since(start)
		}
		if time.Since(start) > Timeout {
			w.t.Fatalf("%s prints %.300q, %v, want %.300q\n%s", strings.Join(command, " "), out, err, want, w.env.tails())
		}
		time.Sleep(200 * time.Millisecond)
	}
}
