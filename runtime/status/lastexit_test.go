// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// An exit that no kill caused is in the status, however the clock stands; one that a
// kill caused is in that kill's record.
func TestLastExit(t *testing.T) {
	ended := func(id string, code int32, reason string, at time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ContainerID: "containerd://" + id, ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(t0.Add(at)),
		}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	container := func(name string, state, last corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: state, LastTerminationState: last}
	}
	containers := func(list ...corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: list}
	}
	inits := func(list ...corev1.ContainerStatus) corev1.PodStatus {
		return corev1.PodStatus{InitContainerStatuses: list}
	}
	none := corev1.ContainerState{}
	killed := []v1alpha1.KillRecord{{ID: "k", Container: "c", ContainerID: "c-1"}}
	failed := []v1alpha1.KillRecord{{
		ID: "k", Container: "c", ContainerID: "c-1", Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeFailed,
		Grace: v1alpha1.KillGrace{Seconds: 30}, FinishTime: new(metav1.NewMicroTime(t0)),
	}}
	tests := map[string]struct {
		steps []corev1.PodStatus
		kills []v1alpha1.KillRecord
		want  string // "" if there is none
	}{
		"nothing has ended":         {steps: []corev1.PodStatus{containers(container("c", runs, none))}},
		"a crash":                   {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", 0), none))}, want: "c exit 3"},
		"out of memory":             {steps: []corev1.PodStatus{containers(container("c", runs, ended("c-1", 137, "OOMKilled", 0)))}, want: "c OOMKilled (137)"},
		"kill -9 from outside":      {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 137, "Error", 0), none))}, want: "c exit 137"},
		"its work is done":          {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 0, "Completed", 0), none))}, want: "c exit 0"},
		"nothing saw how":           {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 255, "Unknown", 0), none))}, want: "c Unknown (255)"},
		"a kill":                    {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 143, "Error", 0), none))}, kills: killed},
		"a kill of an earlier one":  {steps: []corev1.PodStatus{containers(container("c", ended("c-2", 1, "Error", 0), ended("c-1", 143, "Error", 0)))}, kills: killed, want: "c exit 1"},
		"a kill that failed":        {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 143, "Error", 35*time.Second), none))}, kills: failed},
		"long after it failed":      {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", time.Hour), none))}, kills: failed, want: "c exit 3"},
		"after another kill of it":  {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", time.Hour), none))}, kills: slices.Concat(killed, failed)},
		"an init container's work":  {steps: []corev1.PodStatus{inits(container("i", ended("i-1", 0, "Completed", 0), none))}},
		"an init container's crash": {steps: []corev1.PodStatus{inits(container("i", ended("i-1", 2, "Error", 0), none))}, want: "i exit 2"},
		"the later one of two":      {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 1, "Error", 2), none), container("d", ended("d-1", 2, "Error", 1), none))}, want: "c exit 1"},
		"kept while the next runs":  {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", 0), none)), containers(container("c", runs, ended("c-1", 3, "Error", 0)))}, want: "c exit 3"},
		"kept when it is removed":   {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", 0), none)), containers(container("c", runs, none))}, want: "c exit 3"},
		"the clock was set back":    {steps: []corev1.PodStatus{containers(container("c", ended("c-1", 3, "Error", 0), none)), containers(container("c", ended("c-2", 4, "Error", -time.Hour), ended("c-1", 3, "Error", 0)))}, want: "c exit 4"},
		"a kill after a crash":      {steps: []corev1.PodStatus{containers(container("d", ended("d-1", 9, "Error", 0), none)), containers(container("d", runs, ended("d-1", 9, "Error", 0)), container("c", ended("c-1", 0, "Completed", time.Hour), none))}, kills: killed, want: "d exit 9"},
		"an end that is not known":  {steps: []corev1.PodStatus{containers(container("c", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}, none))}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var st *v1alpha1.NodeWorkloadStatus
			for _, step := range tt.steps {
				next := NodeWorkload(NodeWorkloadInput{Pod: &corev1.Pod{}, Previous: st, Status: step, Kills: tt.kills, Now: t0})
				st = &next
			}
			got := ""
			if e := st.LastExit; e != nil {
				got = e.Container + " " + e.Summary
			}
			if got != tt.want {
				t.Errorf("last exit %q, want %q", got, tt.want)
			}
		})
	}
}

// Where the kernel has just killed for memory, an exit by SIGKILL that was not asked for
// is that, if it can only be the one.
func TestLastExitByTheKernelsCount(t *testing.T) {
	exited := func(name string, code int32, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ContainerID: "containerd://" + name, ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(t0),
		}}}
	}
	tests := map[string]struct {
		containers []corev1.ContainerStatus
		kills      []v1alpha1.KillRecord
		quiet      bool
		want       string
	}{
		"by SIGKILL":                  {containers: []corev1.ContainerStatus{exited("c", 137, "Error")}, want: "OOMKilled (137)"},
		"the count did not rise":      {containers: []corev1.ContainerStatus{exited("c", 137, "Error")}, quiet: true, want: "exit 137"},
		"the runtime says so":         {containers: []corev1.ContainerStatus{exited("c", 137, "OOMKilled")}, want: "OOMKilled (137)"},
		"the runtime has another":     {containers: []corev1.ContainerStatus{exited("c", 137, "StartError")}, want: "StartError (137)"},
		"by itself":                   {containers: []corev1.ContainerStatus{exited("c", 1, "Error")}, want: "exit 1"},
		"one of two":                  {containers: []corev1.ContainerStatus{exited("c", 137, "Error"), exited("d", 137, "Error")}, want: "exit 137"},
		"beside one that was killed":  {containers: []corev1.ContainerStatus{exited("d", 137, "Error"), exited("c", 137, "Error")}, kills: []v1alpha1.KillRecord{{ContainerID: "d"}}, want: "OOMKilled (137)"},
		"beside one that ended later": {containers: []corev1.ContainerStatus{exited("c", 137, "Error"), exited("d", 3, "Error")}, want: "exit 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			st := NodeWorkload(NodeWorkloadInput{
				Pod: &corev1.Pod{}, Status: corev1.PodStatus{ContainerStatuses: tt.containers}, Kills: tt.kills, OOMKilled: !tt.quiet, Now: t0,
			})
			if st.LastExit == nil || st.LastExit.Summary != tt.want {
				t.Errorf("last exit %+v, want %q", st.LastExit, tt.want)
			}
		})
	}
}
