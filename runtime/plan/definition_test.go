// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestMadeFrom(t *testing.T) {
	const other = containerHashV1 + ":0"
	defs := &Definitions{
		Pod:         "v1:pod",
		Containers:  map[string]string{"c": "v9:c", "i": "v9:i"},
		Earlier:     map[string]string{"c": containerHashV1 + ":c"},
		RestartedAt: "now",
	}
	made := func(name, hash string) ContainerStatus {
		return ContainerStatus{ID: name + hash, Name: name, Hash: hash, Recorded: Recorded{RestartedAt: "now"}}
	}
	tests := map[string]struct {
		containers []ContainerStatus
		sandboxes  []SandboxStatus
		want       bool
	}{
		"nothing":                    {want: false},
		"a sandbox alone":            {sandboxes: []SandboxStatus{{Hash: "v1:pod"}}, want: false},
		"all of it":                  {[]ContainerStatus{made("c", "v9:c"), made("i", "v9:i")}, []SandboxStatus{{Hash: "v1:pod"}}, true},
		"an older instance of other": {[]ContainerStatus{made("c", "v9:c"), made("c", "v9:x")}, nil, true},
		"the newest is of other":     {[]ContainerStatus{made("c", "v9:x"), made("c", "v9:c")}, nil, false},
		"one of two":                 {[]ContainerStatus{made("c", "v9:c"), made("i", "v9:x")}, nil, false},
		"as the version before made": {[]ContainerStatus{made("c", containerHashV1+":c")}, nil, true},
		"other, by that version":     {[]ContainerStatus{made("c", other)}, nil, false},
		"not named any more":         {[]ContainerStatus{made("gone", "v9:c")}, nil, false},
		"another sandbox":            {[]ContainerStatus{made("c", "v9:c")}, []SandboxStatus{{Hash: "v1:x"}, {Hash: "v1:pod"}}, false},
		"an older sandbox":           {[]ContainerStatus{made("c", "v9:c")}, []SandboxStatus{{Hash: "v1:pod"}, {Hash: "v1:x"}}, true},
		"before a restart":           {[]ContainerStatus{{ID: "c", Name: "c", Hash: "v9:c"}}, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := MadeFrom(defs, &PodStatus{Containers: tt.containers, Sandboxes: tt.sandboxes}); got != tt.want {
				t.Errorf("MadeFrom = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestChangedFields(t *testing.T) {
	signal := &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	for name, tt := range map[string]struct {
		before, after corev1.Container
		want          []string
	}{
		"nothing":               {corev1.Container{Name: "c", Image: "a"}, corev1.Container{Name: "c", Image: "a"}, nil},
		"none and empty":        {corev1.Container{Args: []string{}}, corev1.Container{}, nil},
		"in the API's order":    {corev1.Container{Image: "a"}, corev1.Container{Image: "b", TTY: true, Args: []string{"x"}}, []string{"image", "args", "tty"}},
		"in place":              {corev1.Container{}, corev1.Container{ImagePullPolicy: corev1.PullNever, Lifecycle: hook}, nil},
		"the stop signal":       {corev1.Container{Lifecycle: hook}, corev1.Container{Lifecycle: signal}, []string{"lifecycle.stopSignal"}},
		"env of the same names": {corev1.Container{Env: []corev1.EnvVar{{Name: "a", Value: "1"}}}, corev1.Container{Env: []corev1.EnvVar{{Name: "a", Value: "2"}}}, []string{"env"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ChangedFields(&tt.before, &tt.after)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// A kill names the changed fields of the container that it was made from, and of no other.
func TestKillNamesChangedFields(t *testing.T) {
	pod := func(image string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
	}
	now, made := pod("image:3"), HashContainer(&pod("image:1").Spec.Containers[0])
	for name, tt := range map[string]struct {
		previous *corev1.Pod
		hash     string
		want     []string
	}{
		"it was made from it":         {pod("image:1"), made, []string{"image"}},
		"it was made from one before": {pod("image:2"), made, nil},
		"nothing is known":            {nil, made, nil},
		"another container":           {&corev1.Pod{}, made, nil},
	} {
		t.Run(name, func(t *testing.T) {
			observed := &PodStatus{
				Sandboxes:  []SandboxStatus{{ID: "s", State: SandboxReady, NetworkNamespace: "POD", Network: &SandboxNetwork{IP: "192.0.2.1"}}},
				Containers: []ContainerStatus{{ID: "c-1", Name: "c", SandboxID: "s", State: ContainerRunning, Hash: tt.hash}},
			}
			kills := Compute(Input{Pod: now, Previous: tt.previous, Observed: observed, Definitions: Define(now)}).ContainersToKill
			if len(kills) != 1 {
				t.Fatalf("kills %+v", kills)
			}
			if diff := cmp.Diff(tt.want, kills[0].ChangedFields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if want := "Container c definition changed, will be restarted"; kills[0].Message != want {
				t.Errorf("message %q, want %q", kills[0].Message, want)
			}
		})
	}
}
