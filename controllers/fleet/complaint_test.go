// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// A condition says which node is not ready and why, in a few words.
func TestTextsOfAShare(t *testing.T) {
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status := func(summary, ready string, containers ...corev1.ContainerStatus) v1alpha1.NodeWorkloadStatus {
		return v1alpha1.NodeWorkloadStatus{Summary: summary, Ready: ready, ContainerStatuses: containers, Phase: corev1.PodFailed}
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
			wantNotReady: "0/1 ready, readiness probe failing",
		},
		"it has not started": {
			status:       status("Running", "0/1", corev1.ContainerStatus{State: runs, Started: new(false)}),
			wantNotReady: "0/1 ready, startup probe not passed yet",
		},
		"a container waits":  {status: status("CrashLoopBackOff", "1/2"), wantNotReady: "1/2 ready, CrashLoopBackOff"},
		"nothing was heard":  {wantNotReady: "nothing reported yet"},
		"it exited":          {status: status("Error", "0/1", exited(3, "Error")), wantFailed: "exit code 3"},
		"it was OOM killed":  {status: status("OOMKilled", "0/1", exited(137, "OOMKilled")), wantFailed: "exit code 137 (OOMKilled)"},
		"one of two is done": {status: status("Error", "0/2", exited(0, "Completed"), exited(4, "Error")), wantFailed: "exit code 4"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			share := ShareOf(&v1alpha1.NodeWorkload{Status: tt.status}, nil)
			if tt.wantNotReady != "" && share.Complaint != tt.wantNotReady {
				t.Errorf("not ready: %q, want %q", share.Complaint, tt.wantNotReady)
			}
			if tt.wantFailed != "" && share.Failure != tt.wantFailed {
				t.Errorf("failed: %q, want %q", share.Failure, tt.wantFailed)
			}
		})
	}
}
