// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// mess puts a pod on the runtime that should never be: two running containers of
// one name, a sandbox without metadata, one without a name, times to come.
func mess(t *testing.T, fake *fakeRuntime, client *Client) {
	t.Helper()
	pod := newPod()
	old := runSandbox(t, client, pod, 5)
	bare := runSandbox(t, client, pod, 6)
	newest := runSandbox(t, client, pod, 2)
	for attempt, sandbox := range []string{old, bare, newest, newest} {
		start(t, client, pod, &pod.Spec.Containers[0], sandbox, attempt)
	}
	fake.set(func() {
		for _, s := range fake.sandboxes {
			if s.GetId() == bare {
				s.Metadata = nil
			}
		}
		unnamed, future := fake.containers[0], fake.containers[2]
		unnamed.Metadata = nil
		delete(unnamed.Labels, labelContainerName)
		unnamed.Annotations = nil
		future.CreatedAt, future.StartedAt, future.FinishedAt = math.MaxInt64, math.MaxInt64, math.MaxInt64
		future.Annotations[annotationRestartCount] = "many"
		// By hand, into our sandbox: nothing says that it is ours.
		fake.containers = append(fake.containers, &fakeContainer{sandbox: newest, ContainerStatus: &runtimeapi.ContainerStatus{
			Id: "unlabelled", Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		}})
	})
}

// What a runtime should never report is observed as far as it is ours.
func TestObserveBadInput(t *testing.T) {
	fake, client := newFake(t)
	mess(t, fake, client)
	got := podStatus(t, client)
	var sandboxes, names []string
	for _, s := range got.Sandboxes {
		sandboxes = append(sandboxes, s.ID)
	}
	for _, c := range got.Containers {
		names = append(names, c.Name)
		if c.ID == "unlabelled" {
			t.Error("a container without our labels is taken for ours")
		}
	}
	if diff := cmp.Diff([]string{"sandbox-3", "sandbox-2", "sandbox-1"}, sandboxes); diff != "" {
		t.Errorf("sandboxes (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"app", "app", "app", ""}, names); diff != "" {
		t.Errorf("containers (-want +got)\n%s", diff)
	}
	if first, second := got.Containers[0], got.Containers[1]; first.RestartCount != 3 || second.RestartCount != 2 || second.CreatedAt.After(time.Now()) {
		t.Errorf("want the attempt for the restart count of the one to come, and its time before that of the next, got %+v", second)
	}
	pod, err := client.RecordedPod(t.Context(), "uid-1")
	if err != nil || len(pod.Spec.Containers) != 2 {
		t.Errorf("recorded pod %+v, error %v", pod, err)
	}
	// Three sandboxes are ready: the plan starts over instead of starting beside.
	actions := plan.Compute(plan.Input{Pod: newPod(), Observed: got, Definitions: plan.Define(newPod())})
	if !actions.KillPod || !actions.CreateSandbox {
		t.Errorf("actions %+v", actions)
	}
}

// What is observed does not depend on the order in which the runtime lists.
func TestPropertyOrderOfLists(t *testing.T) {
	times := map[string]func(at *int64){
		"times to come": func(*int64) {},
		// A clock that stands still, and one that was never set.
		"all at once": func(at *int64) { *at = 1 },
		"no times":    func(at *int64) { *at = 0 },
	}
	for name, set := range times {
		t.Run(name, func(t *testing.T) { checkOrderOfLists(t, set) })
	}
}

func checkOrderOfLists(t *testing.T, set func(at *int64)) {
	fake, client := newFake(t)
	mess(t, fake, client)
	fake.set(func() {
		for _, s := range fake.sandboxes {
			set(&s.CreatedAt)
		}
		for _, c := range fake.containers {
			set(&c.CreatedAt)
		}
	})
	wantPods, err := client.ListPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := podStatus(t, client)
	rapid.Check(t, func(rt *rapid.T) {
		fake.set(func() {
			fake.sandboxes = rapid.Permutation(fake.sandboxes).Draw(rt, "sandboxes")
			fake.containers = rapid.Permutation(fake.containers).Draw(rt, "containers")
		})
		got, err := client.PodStatus(t.Context(), "uid-1")
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("status (-want +got)\n%s", diff)
		}
		pods, err := client.ListPods(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(wantPods, pods, cmp.AllowUnexported(Pod{})); diff != "" {
			rt.Errorf("pods (-want +got)\n%s", diff)
		}
	})
}

// Whatever labels, annotations and times say, a container is observed under its
// ID, and a pod restored with each name once.
func FuzzObserve(f *testing.F) {
	f.Add("uid-1", "web", "app", "7", `{"sandbox":"s","index":2,"init":true,"restartPolicy":"Always"}`, "", int64(5), uint32(1), true)
	f.Add("", "", "", "many", `{"index":-9223372036854775808}`, "[]", int64(math.MaxInt64), uint32(math.MaxUint32), false)
	f.Add("\xff", "a/../b", "\x00", "-0", `{"index":1e3,"grace":-5}`, `{"grace":-5,"restartPolicy":"?"}`, int64(math.MinInt64), uint32(0), true)
	f.Fuzz(func(t *testing.T, uid, pod, name, count, record, sandboxRecord string, at int64, attempt uint32, metadata bool) {
		labels := map[string]string{labelPodUID: uid, labelPodName: pod, labelContainerName: name}
		annotations := map[string]string{annotationRestartCount: count, AnnotationRecord: record}
		s := &runtimeapi.ContainerStatus{
			Id: "id", Labels: labels, Annotations: annotations, CreatedAt: at, StartedAt: at, FinishedAt: at,
			State: runtimeapi.ContainerState(attempt % 6),
		}
		sandbox := &runtimeapi.PodSandbox{Id: "s", Labels: labels, Annotations: map[string]string{AnnotationRecord: sandboxRecord}}
		if metadata {
			s.Metadata = &runtimeapi.ContainerMetadata{Name: "spare", Attempt: attempt}
			sandbox.Metadata = &runtimeapi.PodSandboxMetadata{Attempt: attempt}
		}
		got, _ := convertContainer(s)
		if got.ID != "id" || got.RestartCount < 0 || (metadata && got.Name == "") || (name != "" && got.Name != name) {
			t.Errorf("observed %+v", got)
		}
		convertSandbox(&runtimeapi.PodSandboxStatus{Id: "s", Metadata: sandbox.GetMetadata(), Annotations: sandbox.GetAnnotations()})
		listed := &runtimeapi.Container{Id: "id", Labels: labels, Annotations: annotations, Metadata: s.GetMetadata(), CreatedAt: at}
		restored, _ := restorePod([]*runtimeapi.PodSandbox{sandbox, sandbox}, []*runtimeapi.Container{listed, listed})
		if len(restored.Spec.InitContainers)+len(restored.Spec.Containers) != 1 || string(restored.UID) != uid {
			t.Errorf("restored %+v", restored)
		}
	})
}
