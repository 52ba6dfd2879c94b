// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A condition says which node is not ready and why, in a few words.
func TestNodeMessages(t *testing.T) {
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status := func(summary, ready string, containers ...corev1.ContainerStatus) v1alpha1.NodeWorkloadStatus {
		return v1alpha1.NodeWorkloadStatus{Summary: summary, Ready: ready, ContainerStatuses: containers}
	}
	exited := func(code int32, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
	}
	tests := map[string]struct {
		status                   v1alpha1.NodeWorkloadStatus
		wantNotReady, wantFailed string
	}{
		"the readiness probe fails": {
			status:       status("Running", "0/1", corev1.ContainerStatus{State: runs, Started: new(true)}),
			wantNotReady: "n1: 0/1 ready, readiness probe failing",
		},
		"it has not started": {
			status:       status("Running", "0/1", corev1.ContainerStatus{State: runs, Started: new(false)}),
			wantNotReady: "n1: 0/1 ready, startup probe not passed yet",
		},
		"a container waits":  {status: status("CrashLoopBackOff", "1/2"), wantNotReady: "n1: 1/2 ready, CrashLoopBackOff"},
		"nothing was heard":  {wantNotReady: "n1: nothing reported yet"},
		"it exited":          {status: status("Error", "0/1", exited(3, "Error")), wantFailed: "Failed on n1, exit code 3; will not restart"},
		"it was OOM killed":  {status: status("OOMKilled", "0/1", exited(137, "OOMKilled")), wantFailed: "Failed on n1, exit code 137 (OOMKilled); will not restart"},
		"one of two is done": {status: status("Error", "0/2", exited(0, "Completed"), exited(4, "Error")), wantFailed: "Failed on n1, exit code 4; will not restart"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := &nodeView{name: "n1", nodeWorkload: &v1alpha1.NodeWorkload{Status: tt.status}}
			if got := notReadyMessage([]*nodeView{n}); tt.wantNotReady != "" && got != tt.wantNotReady {
				t.Errorf("not ready: %q, want %q", got, tt.wantNotReady)
			}
			if got := failedMessage([]*nodeView{n}); tt.wantFailed != "" && got != tt.wantFailed {
				t.Errorf("failed: %q, want %q", got, tt.wantFailed)
			}
		})
	}
}
