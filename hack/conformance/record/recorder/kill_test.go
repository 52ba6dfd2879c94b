// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build record

package recorder

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

	"github.com/managedworkload/managedworkload/hack/conformance/record/cases"
	"github.com/managedworkload/managedworkload/hack/recordings"
)

// labels of a container of a pod, or of a sandbox.
func labelsOf(uid, name, namespace, container string) map[string]string {
	l := map[string]string{"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace}
	if container != "" {
		l["io.kubernetes.container.name"] = container
	}
	return l
}

func killRuntime(c *cases.Kill) *fakeRuntime {
	f := &fakeRuntime{hooks: c.Hooks}
	now := time.Now().UnixNano()
	for _, in := range c.Runtime.Containers {
		fc := &fakeContainer{stopSeconds: in.StopSeconds, stopError: in.StopError, ContainerStatus: runtimeapi.ContainerStatus{
			Id: in.ID, Metadata: &runtimeapi.ContainerMetadata{Name: in.Name}, Labels: in.Labels, Annotations: in.Annotations,
			State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: now, StartedAt: now, Image: &runtimeapi.ImageSpec{},
		}}
		if c.Pod != nil {
			fc.Labels = labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, in.Name)
		}
		f.containers = append(f.containers, fc)
	}
	for i, in := range c.Runtime.Sandboxes {
		fs := &fakeSandbox{stopError: in.StopError, PodSandboxStatus: runtimeapi.PodSandboxStatus{
			Id: in.ID, Metadata: &runtimeapi.PodSandboxMetadata{}, CreatedAt: now - int64(i),
			State:   runtimeapi.PodSandboxState(runtimeapi.PodSandboxState_value["SANDBOX_"+in.State]),
			Network: &runtimeapi.PodSandboxNetworkStatus{Ip: in.IP},
		}}
		if c.Pod != nil {
			fs.Metadata = &runtimeapi.PodSandboxMetadata{Name: c.Pod.Name, Namespace: c.Pod.Namespace, Uid: string(c.Pod.UID)}
			fs.Labels = labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, "")
		} else if len(c.Runtime.Containers) > 0 {
			l := c.Runtime.Containers[0].Labels
			fs.Metadata = &runtimeapi.PodSandboxMetadata{
				Name: l["io.kubernetes.pod.name"], Namespace: l["io.kubernetes.pod.namespace"], Uid: l["io.kubernetes.pod.uid"],
			}
			fs.Labels = labelsOf(fs.Metadata.Uid, fs.Metadata.Name, fs.Metadata.Namespace, "")
		}
		f.sandboxes = append(f.sandboxes, fs)
	}
	return f
}

func running(c *cases.Kill) kubecontainer.Pod {
	pod := kubecontainer.Pod{}
	if c.Pod != nil {
		pod.ID, pod.Name, pod.Namespace = c.Pod.UID, c.Pod.Name, c.Pod.Namespace
	}
	for _, in := range c.Runtime.Containers {
		pod.Containers = append(pod.Containers, &kubecontainer.Container{ID: cases.ContainerID(in.ID), Name: in.Name, State: kubecontainer.ContainerStateRunning})
	}
	for _, in := range c.Runtime.Sandboxes {
		pod.Sandboxes = append(pod.Sandboxes, &kubecontainer.Container{ID: cases.ContainerID(in.ID)})
	}
	return pod
}

func decideKill(t *testing.T, c *cases.Kill) {
	f := killRuntime(c)
	m := newManager(t, f, podStates{}, recordings.Probes{})
	out := entry{}
	switch c.Mode {
	case "killContainer":
		err := m.KillContainer(t.Context(), c.Pod, cases.ContainerID(c.ContainerID), c.ContainerName, c.Message, c.Reason, c.GracePeriodOverride)
		out["error"] = textOf(err)
	case "killPod":
		r := m.KillPod(t.Context(), c.Pod, running(c), c.GracePeriodOverride)
		out["results"], out["failed"] = resultsOf(r.SyncResults), r.Error() != nil
	default:
		out["results"] = resultsOf(m.KillContainers(t.Context(), c.Pod, running(c), c.GracePeriodOverride))
	}
	f.record("Return", entry{})
	m.settle()
	trace := recordings.SortKills(f.trace)
	out["trace"] = trace
	if c.Mode == "" {
		stops := []any{}
		for _, e := range recordings.Only(trace, "StopContainer") {
			stops = append(stops, entry{"container": e["container"], "id": e["id"], "t": e["t"], "timeout": e["timeout"]})
		}
		out["stops"] = stops
	}
	c.Output = out
}

func decideGC(t *testing.T, c *cases.GC) {
	f := &fakeRuntime{}
	before := func(age float64) int64 { return time.Now().Add(-time.Duration(age * float64(time.Second))).UnixNano() }
	for _, in := range c.Containers {
		fc := &fakeContainer{stopError: in.StopError, removeError: in.RemoveError, sandbox: in.SandboxID, ContainerStatus: runtimeapi.ContainerStatus{
			Id: in.ID, Metadata: &runtimeapi.ContainerMetadata{Name: in.Name}, Labels: labelsOf(in.PodUID, "pod-"+in.PodUID, "ns1", in.Name),
			State:     runtimeapi.ContainerState(runtimeapi.ContainerState_value[stateNames[in.State]]),
			CreatedAt: before(in.AgeSeconds), Annotations: map[string]string{}, Image: &runtimeapi.ImageSpec{},
		}}
		if grace := c.Pods[in.PodUID].GraceSeconds; grace != nil {
			fc.Annotations["io.kubernetes.pod.terminationGracePeriod"] = string(encode(t, *grace))
		}
		f.containers = append(f.containers, fc)
	}
	for _, in := range c.Sandboxes {
		f.sandboxes = append(f.sandboxes, &fakeSandbox{stopError: in.StopError, PodSandboxStatus: runtimeapi.PodSandboxStatus{
			Id: in.ID, Metadata: &runtimeapi.PodSandboxMetadata{Uid: in.PodUID}, Labels: labelsOf(in.PodUID, "pod-"+in.PodUID, "ns1", ""),
			State: runtimeapi.PodSandboxState(runtimeapi.PodSandboxState_value["SANDBOX_"+in.State]), CreatedAt: before(in.AgeSeconds),
		}})
	}
	m := newManager(t, f, podStates{pods: c.Pods}, recordings.Probes{})
	policy := kubecontainer.GCPolicy{
		MinAge:             time.Duration(c.Policy.MinAgeSeconds * float64(time.Second)),
		MaxPerPodContainer: c.Policy.MaxPerPodContainer, MaxContainers: c.Policy.MaxContainers,
	}
	first, second := m.Evict(t.Context(), policy, c.AllSourcesReady, c.EvictNonDeletedPods)
	var containers, sandboxes []string
	for _, c := range f.containers {
		containers = append(containers, c.Id)
	}
	for _, s := range f.sandboxes {
		sandboxes = append(sandboxes, s.Id)
	}
	c.Output = recordings.Collected(f.trace, containers, sandboxes, textOf(first), textOf(second))
}

var stateNames = map[string]string{
	"created": "CONTAINER_CREATED", "running": "CONTAINER_RUNNING", "exited": "CONTAINER_EXITED", "unknown": "CONTAINER_UNKNOWN",
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
