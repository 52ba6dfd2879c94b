// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func TestMadeFrom(t *testing.T) {
	defs := &Definitions{
		Pod:         "v1:pod",
		Containers:  map[string]string{"c": "v9:c", "i": "v9:i"},
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
		"by another version":         {[]ContainerStatus{made("c", "v8:x")}, nil, true},
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

// What was made from a newer pod than the one that is known is kept until that one is
// confirmed, whatever differs; what is not there is started.
func TestUnconfirmedKillsNothing(t *testing.T) {
	known := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers:    []corev1.Container{{Name: "c", Image: "image:1"}, {Name: "missing", Image: "image:1"}},
	}}
	known.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "1"}
	differences := AllDifferences()
	differences.PullBeforeKill = false // nothing waits for an image
	for name, change := range map[string]func(*corev1.Pod){
		"the definition": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "image:2" },
		"the restart":    func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationRestartedAt] = "2" },
		"its name":       func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" },
		"the pod":        func(p *corev1.Pod) { p.Spec.Hostname = "other" },
		"the network":    func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"resources in place": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			newer := known.DeepCopy()
			change(newer)
			c := &newer.Spec.Containers[0]
			given := ResourcesOf(&c.Resources)
			sandbox := SandboxStatus{ID: "s", State: SandboxReady, NetworkNamespace: networkFor(newer), Hash: HashPod(newer), Network: &SandboxNetwork{IP: "192.0.2.1"}}
			observed := &PodStatus{Sandboxes: []SandboxStatus{sandbox}, Containers: []ContainerStatus{{
				ID: "c-1", Name: c.Name, SandboxID: "s", State: ContainerRunning, Hash: HashContainer(c),
				Recorded: Recorded{RestartedAt: newer.Annotations[v1alpha1.AnnotationRestartedAt], Resources: &given},
			}}}
			in := Input{Pod: known, Observed: observed, Definitions: Define(known), Differences: differences}
			if got := Compute(in); !got.KillPod && len(got.ContainersToKill) == 0 && !got.Resizes() {
				t.Fatalf("actions %+v: the confirmed pod changes nothing, so that this shows nothing", got)
			}
			in.Unconfirmed = true
			got := Compute(in)
			if got.KillPod || len(got.ContainersToKill) > 0 || got.Resizes() {
				t.Errorf("actions %+v, want no kill and no resize", got)
			}
			if !slices.Contains(got.ContainersToStart, 1) {
				t.Errorf("actions %+v: the container that is not there is not started", got)
			}
		})
	}
}

// What runs of an earlier definition is named, whatever a plan does about it now.
func TestRunsEarlier(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "s", Image: "new"}},
		Containers:     []corev1.Container{{Name: "a", Image: "new"}, {Name: "b", Image: "new"}},
	}}
	hash := func(name, image string) string { return HashContainer(&corev1.Container{Name: name, Image: image}) }
	observed := &PodStatus{Containers: []ContainerStatus{
		{ID: "s1", Name: "s", State: ContainerRunning, Hash: hash("s", "old")},
		{ID: "a2", Name: "a", State: ContainerRunning, Hash: hash("a", "new")},
		{ID: "a1", Name: "a", State: ContainerExited, Hash: hash("a", "old")},
		{ID: "b1", Name: "b", State: ContainerExited, Hash: hash("b", "old")},
	}}
	if diff := cmp.Diff([]string{"s"}, RunsEarlier(Define(pod), observed)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pod.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: "now"}
	if diff := cmp.Diff([]string{"s", "a"}, RunsEarlier(Define(pod), observed)); diff != "" {
		t.Errorf("after a restart was requested (-want +got):\n%s", diff)
	}
}
