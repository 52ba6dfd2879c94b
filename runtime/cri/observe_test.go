// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// start creates and starts a container of a pod.
func start(t *testing.T, client *Client, pod *corev1.Pod, c *corev1.Container, sandbox string, attempt int) string {
	t.Helper()
	id, err := client.CreateContainer(t.Context(), pod, c, plan.CreateOptions{SandboxID: sandbox, Attempt: attempt, ImageRef: "sha256:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func runSandbox(t *testing.T, client *Client, pod *corev1.Pod, attempt uint32) string {
	t.Helper()
	id, err := client.RunSandbox(t.Context(), pod, attempt)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func podStatus(t *testing.T, client *Client) *plan.PodStatus {
	t.Helper()
	s, err := client.PodStatus(t.Context(), "uid-1")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPodStatus(t *testing.T) {
	_, client := newFake(t)
	if diff := cmp.Diff(&plan.PodStatus{ID: "uid-1"}, podStatus(t, client)); diff != "" {
		t.Errorf("of nothing (-want +got)\n%s", diff)
	}
	pod := newPod()
	app := &pod.Spec.Containers[0]
	app.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	old := runSandbox(t, client, pod, 0)
	first := start(t, client, pod, app, old, 0)
	if err := client.StopContainer(t.Context(), first, 1); err != nil {
		t.Fatal(err)
	}
	if err := client.StopSandbox(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	sandbox := runSandbox(t, client, pod, 1)
	second := start(t, client, pod, app, sandbox, 1)

	base := plan.ContainerStatus{
		Name: "app", PodUID: string(pod.UID), Image: "sha256:1", ImageID: "sha256:1", ImageRef: "example.com/app@sha256:1",
		Hash: plan.HashContainer(app), StopSignal: "SIGTERM",
		Resources: &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
			Limits:   app.Resources.Limits,
		},
		Recorded: plan.Recorded{
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds, RestartedAt: "noon",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			Place:     &plan.Place{},
			Resources: &plan.Resources{CPULimit: 500, MemoryLimit: 64 << 20},
		},
	}
	running, exited := base, base
	running.ID, running.SandboxID, running.State, running.RestartCount = second, sandbox, plan.ContainerRunning, 1
	running.CreatedAt, running.StartedAt = time.Unix(0, 4), time.Unix(0, 5)
	running.LogPath = client.config.PodDir.LogDirectory(pod) + "/app/1.log"
	exited.ID, exited.SandboxID, exited.State = first, old, plan.ContainerExited
	exited.CreatedAt, exited.StartedAt, exited.FinishedAt = time.Unix(0, 2), time.Unix(0, 3), time.Unix(0, 4)
	exited.ExitCode, exited.Reason = 3, "Error"
	exited.LogPath = client.config.PodDir.LogDirectory(pod) + "/app/0.log"
	want := &plan.PodStatus{
		ID: "uid-1", Name: "web", Namespace: "default", IPs: []string{"10.0.0.7", "fd00::7"},
		Sandboxes: []plan.SandboxStatus{
			{
				ID: sandbox, State: plan.SandboxReady, Attempt: 1, CreatedAt: time.Unix(0, 3), NetworkNamespace: "POD",
				Network: &plan.SandboxNetwork{IP: "10.0.0.7", AdditionalIPs: []string{"fd00::7"}}, Hash: plan.HashPod(pod),
			},
			{ID: old, State: plan.SandboxNotReady, CreatedAt: time.Unix(0, 1), NetworkNamespace: "POD", Hash: plan.HashPod(pod)},
		},
		Containers:         []plan.ContainerStatus{running, exited},
		ActiveContainerIDs: []string{second},
	}
	if diff := cmp.Diff(want, podStatus(t, client)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// From memory it is the same.
	if diff := cmp.Diff(want, podStatus(t, client)); diff != "" {
		t.Errorf("again (-want +got)\n%s", diff)
	}
	// Without a ready sandbox, no container is active.
	if err := client.StopSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if got := podStatus(t, client); got.ActiveContainerIDs != nil || got.IPs != nil || got.Sandboxes[0].State != plan.SandboxNotReady {
		t.Errorf("after the sandbox stopped: %+v", got)
	}
}

// A steady pod costs two lists, and a change is seen at once.
func TestSteadyPodCosts(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	sandbox := runSandbox(t, client, pod, 0)
	id := start(t, client, pod, &pod.Spec.Containers[0], sandbox, 0)
	podStatus(t, client)
	fake.takeCalls()
	podStatus(t, client)
	lists := []string{"ListPodSandbox", "ListContainers"}
	if diff := cmp.Diff(lists, fake.takeCalls()); diff != "" {
		t.Errorf("steady (-want +got)\n%s", diff)
	}
	if err := client.StopContainer(t.Context(), id, 1); err != nil {
		t.Fatal(err)
	}
	fake.takeCalls()
	if got := podStatus(t, client); got.Containers[0].State != plan.ContainerExited {
		t.Errorf("want it exited, got %s", got.Containers[0].State)
	}
	if diff := cmp.Diff(append(lists, "ContainerStatus"), fake.takeCalls()); diff != "" {
		t.Errorf("after an exit (-want +got)\n%s", diff)
	}
}

// The OOM killer's part may be reported after the exit: a fresh exit is not believed
// for good, also where the clock was set forward meanwhile.
func TestReasonThatComesLate(t *testing.T) {
	for name, exit := range map[string]time.Duration{"just now": 0, "an hour ago, it seems": -time.Hour} {
		t.Run(name, func(t *testing.T) { testLateReason(t, exit) })
	}
}

func testLateReason(t *testing.T, exit time.Duration) {
	fake, client := newFake(t)
	pod := newPod()
	id := start(t, client, pod, &pod.Spec.Containers[0], runSandbox(t, client, pod, 0), 0)
	if err := client.StopContainer(t.Context(), id, 1); err != nil {
		t.Fatal(err)
	}
	fake.set(func() { fake.containers[0].FinishedAt = time.Now().Add(exit).UnixNano() })
	if got := podStatus(t, client).Containers[0].Reason; got != "Error" {
		t.Errorf("want Error, got %s", got)
	}
	fake.set(func() { fake.containers[0].Reason = "OOMKilled" })
	if got := podStatus(t, client).Containers[0].Reason; got != "OOMKilled" {
		t.Errorf("want OOMKilled, got %s", got)
	}
}

// vanishing makes the runtime list what it then has no status of.
func TestVanishingBetweenListAndStatus(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	runSandbox(t, client, pod, 0)
	sandbox := runSandbox(t, client, pod, 1)
	start(t, client, pod, &pod.Spec.Containers[0], sandbox, 0)
	fake.set(func() {
		fake.fail["PodSandboxStatus"] = errNotFound
		fake.fail["ContainerStatus"] = errNotFound
	})
	got := podStatus(t, client)
	if len(got.Sandboxes) != 0 || len(got.Containers) != 0 {
		t.Errorf("want nothing, got %+v", got)
	}
	fake.set(func() { fake.fail["ContainerStatus"] = errUnknown })
	if got, err := client.PodStatus(t.Context(), "uid-1"); err == nil {
		t.Errorf("want the error, got %+v", got)
	}
}

// Another shim's containers and the kubelet's are never part of our pods.
func TestListPods(t *testing.T) {
	fake, client := newFake(t)
	pod := newPod()
	sandbox := runSandbox(t, client, pod, 0)
	id := start(t, client, pod, &pod.Spec.Containers[0], sandbox, 0)
	fake.set(func() {
		fake.sandboxes = append(fake.sandboxes,
			&runtimeapi.PodSandboxStatus{
				Id: "k", CreatedAt: 90, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "kp", Namespace: "kn", Uid: "uid-k"},
				Labels:   map[string]string{labelPodUID: "uid-k", labelPodName: "kp", labelPodNamespace: "kn"},
			},
			&runtimeapi.PodSandboxStatus{
				Id: "bare", CreatedAt: 91, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "bp", Namespace: "bn", Uid: "uid-b"},
			})
		fake.containers = append(fake.containers,
			&fakeContainer{sandbox: "gone", ContainerStatus: &runtimeapi.ContainerStatus{
				Id: "other", CreatedAt: 92, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
				Labels: map[string]string{
					labelPodUID: "uid-o", labelPodName: "op", labelPodNamespace: "on",
					LabelManagedBy: ManagedByShim, LabelInstance: "node-2", LabelCluster: "cluster-1",
				},
			}},
			// In our own sandbox, but not of our making: a person's, by hand.
			&fakeContainer{sandbox: sandbox, ContainerStatus: &runtimeapi.ContainerStatus{
				Id: "intruder", CreatedAt: 93, State: runtimeapi.ContainerState_CONTAINER_EXITED,
			}},
			&fakeContainer{sandbox: sandbox, ContainerStatus: &runtimeapi.ContainerStatus{
				Id: "debugger", CreatedAt: 94, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
				Metadata: &runtimeapi.ContainerMetadata{Name: "shell"}, Labels: map[string]string{labelPodUID: "uid-1"},
			}},
			// Another shim's, in a sandbox that is not ours either.
			&fakeContainer{sandbox: "k", ContainerStatus: &runtimeapi.ContainerStatus{
				Id: "theirs", CreatedAt: 95, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
			}})
		for i, state := range []runtimeapi.ContainerState{
			runtimeapi.ContainerState_CONTAINER_EXITED, runtimeapi.ContainerState_CONTAINER_UNKNOWN, runtimeapi.ContainerState_CONTAINER_EXITED,
		} {
			name := []string{"app", "app", "init"}[i]
			fake.containers = append(fake.containers, &fakeContainer{sandbox: sandbox, ContainerStatus: &runtimeapi.ContainerStatus{
				Id: fmt.Sprint("dead-", i), CreatedAt: int64(-i), State: state, Labels: map[string]string{
					labelPodUID: "uid-1", labelContainerName: name, LabelManagedBy: ManagedByShim, LabelInstance: "node-1",
				},
			}})
		}
	})
	want := []Pod{
		{UID: "uid-1", Name: "web", Namespace: "default", Ours: true, Instance: "node-1", ClusterID: "cluster-1", Alive: true,
			Sandboxes: []string{sandbox}, Containers: []string{"debugger", "intruder", id, "dead-0", "dead-1", "dead-2"},
			Foreign: []plan.ForeignContainer{{ID: "debugger", Name: "shell", SandboxID: sandbox}}, Dead: 2},
		{UID: "uid-b", Name: "bp", Namespace: "bn", Sandboxes: []string{"bare"}},
		{UID: "uid-k", Name: "kp", Namespace: "kn", Sandboxes: []string{"k"}, Containers: []string{"theirs"}, Alive: true},
		{UID: "uid-o", Name: "op", Namespace: "on", Instance: "node-2", ClusterID: "cluster-1", Alive: true, Containers: []string{"other"}},
	}
	got, err := client.ListPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Pod{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s := podStatus(t, client)
	if len(s.Containers) != 4 {
		t.Errorf("want our containers alone, got %+v", s.Containers)
	}
	if diff := cmp.Diff(want[0].Foreign, s.Foreign); diff != "" {
		t.Errorf("of others (-want +got)\n%s", diff)
	}
	if err := client.StopSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if s := podStatus(t, client); s.Foreign != nil {
		t.Errorf("of others in a sandbox that has ended: %+v", s.Foreign)
	}
	if s, err := client.PodStatus(t.Context(), "uid-k"); err != nil || len(s.Sandboxes) != 0 {
		t.Errorf("a foreign pod is not ours to observe: %+v, %v", s, err)
	}
}

func TestSandboxIPs(t *testing.T) {
	for name, tc := range map[string]struct {
		network *plan.SandboxNetwork
		want    []string
	}{
		"no network":      {nil, nil},
		"host network":    {&plan.SandboxNetwork{}, nil},
		"two":             {&plan.SandboxNetwork{IP: "10.0.0.1", AdditionalIPs: []string{"fd00::1"}}, []string{"10.0.0.1", "fd00::1"}},
		"one is nonsense": {&plan.SandboxNetwork{IP: "10.0.0.1", AdditionalIPs: []string{"?"}}, nil},
	} {
		if diff := cmp.Diff(tc.want, sandboxIPs(tc.network)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// Every signal of CRI has a name, and the name leads back to it.
func TestSignals(t *testing.T) {
	for number := range runtimeapi.Signal_name {
		s := runtimeapi.Signal(number)
		if s == runtimeapi.Signal_RUNTIME_DEFAULT {
			continue
		}
		if got, ok := signalNumber(corev1.Signal(signalName(s))); !ok || got != s {
			t.Errorf("%s: got %s", signalName(s), got)
		}
	}
	for _, name := range []corev1.Signal{"", "RUNTIME_DEFAULT", "TERM", "SIGRTMIN+99"} {
		if s, ok := signalNumber(name); ok {
			t.Errorf("%q is no signal, got %s", name, s)
		}
	}
	if s, _ := signalNumber(corev1.SIGRTMAXMINUS14); s != runtimeapi.Signal_SIGRTMAXMINUS14 {
		t.Errorf("got %s", s)
	}
}

func TestNewestSandboxFirst(t *testing.T) {
	at := func(id string, attempt uint32, created int64) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, CreatedAt: created, Metadata: &runtimeapi.PodSandboxMetadata{Attempt: attempt}}
	}
	for name, tc := range map[string]struct{ newer, older *runtimeapi.PodSandbox }{
		"a higher attempt, whatever the clock says": {at("b", 2, 1), at("a", 1, 9)},
		"the same attempt: by time":                 {at("b", 1, 9), at("a", 1, 1)},
		"the same time: by name":                    {at("a", 1, 1), at("b", 1, 1)},
		"no metadata: by time":                      {&runtimeapi.PodSandbox{Id: "b", CreatedAt: 9}, at("a", 5, 1)},
	} {
		compare := newerSandbox([]*runtimeapi.PodSandbox{tc.newer, tc.older})
		if compare(tc.newer, tc.older) >= 0 || compare(tc.older, tc.newer) <= 0 {
			t.Errorf("%s: wrong order", name)
		}
	}
}

// Changed sees what a second list tells differently.
func TestPodChanged(t *testing.T) {
	base := Pod{UID: "u", Sandboxes: []string{"s"}, Containers: []string{"a", "b"}, states: []int32{0, 1, 1}}
	tests := map[string]struct {
		change func(*Pod)
		want   bool
	}{
		"nothing":            {func(*Pod) {}, false},
		"a new container":    {func(p *Pod) { p.Containers = []string{"c", "a", "b"} }, true},
		"another sandbox":    {func(p *Pod) { p.Sandboxes = []string{"t"} }, true},
		"one exited of two":  {func(p *Pod) { p.states = []int32{0, 2, 1} }, true},
		"the sandbox is old": {func(p *Pod) { p.states = []int32{1, 1, 1} }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := base
			tt.change(&now)
			if got := now.Changed(base); got != tt.want {
				t.Errorf("changed %t, want %t", got, tt.want)
			}
		})
	}
}
