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
	"github.com/managedworkload/managedworkload/hack/fakecri"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/hack/scenario"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// labels of a container of a pod, or of a sandbox.
func labelsOf(uid, name, namespace, container string) map[string]string {
	l := map[string]string{"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace}
	if container != "" {
		l["io.kubernetes.container.name"] = container
	}
	return l
}

func killRuntime(c *cases.Kill) *fakecri.Recorded {
	f := fakecri.NewRecorded(c.Hooks)
	now := time.Now()
	for _, in := range c.Runtime.Containers {
		labels := in.Labels
		if c.Pod != nil {
			labels = labelsOf(string(c.Pod.UID), c.Pod.Name, c.Pod.Namespace, in.Name)
		}
		f.Put(&fakecri.Container{
			ContainerStatus: plan.ContainerStatus{ID: in.ID, Name: in.Name, State: plan.ContainerRunning, CreatedAt: now, StartedAt: now},
			Script:          scenario.Script{StopSeconds: in.StopSeconds}, StopError: in.StopError,
			Labels: labels, Annotations: in.Annotations,
		})
	}
	for i, in := range c.Runtime.Sandboxes {
		m := &runtimeapi.PodSandboxMetadata{}
		if c.Pod != nil {
			m = &runtimeapi.PodSandboxMetadata{Name: c.Pod.Name, Namespace: c.Pod.Namespace, Uid: string(c.Pod.UID)}
		} else if len(c.Runtime.Containers) > 0 {
			l := c.Runtime.Containers[0].Labels
			m = &runtimeapi.PodSandboxMetadata{
				Name: l["io.kubernetes.pod.name"], Namespace: l["io.kubernetes.pod.namespace"], Uid: l["io.kubernetes.pod.uid"],
			}
		}
		f.PutSandbox(&fakecri.Sandbox{
			SandboxStatus: plan.SandboxStatus{
				ID: in.ID, State: plan.SandboxState(in.State), CreatedAt: now.Add(-time.Duration(i)), Network: &plan.SandboxNetwork{IP: in.IP},
			},
			Metadata: m, Labels: labelsOf(m.Uid, m.Name, m.Namespace, ""), StopError: in.StopError,
		})
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
	f.Note("Return", entry{})
	m.settle()
	trace := recordings.SortKills(f.Trace())
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
	f := fakecri.NewRecorded(nil)
	before := func(age float64) time.Time { return time.Now().Add(-time.Duration(age * float64(time.Second))) }
	for _, in := range c.Containers {
		annotations := map[string]string{}
		if grace := c.Pods[in.PodUID].GraceSeconds; grace != nil {
			annotations["io.kubernetes.pod.terminationGracePeriod"] = string(encode(t, *grace))
		}
		f.Put(&fakecri.Container{
			ContainerStatus: plan.ContainerStatus{
				ID: in.ID, Name: in.Name, SandboxID: in.SandboxID, State: plan.ContainerState(in.State), CreatedAt: before(in.AgeSeconds),
			},
			Labels: labelsOf(in.PodUID, "pod-"+in.PodUID, "ns1", in.Name), Annotations: annotations,
			StopError: in.StopError, RemoveError: in.RemoveError,
		})
	}
	for _, in := range c.Sandboxes {
		f.PutSandbox(&fakecri.Sandbox{
			SandboxStatus: plan.SandboxStatus{ID: in.ID, State: plan.SandboxState(in.State), CreatedAt: before(in.AgeSeconds)},
			Metadata:      &runtimeapi.PodSandboxMetadata{Uid: in.PodUID}, Labels: labelsOf(in.PodUID, "pod-"+in.PodUID, "ns1", ""),
			StopError: in.StopError,
		})
	}
	m := newManager(t, f, podStates{pods: c.Pods}, recordings.Probes{})
	policy := kubecontainer.GCPolicy{
		MinAge:             time.Duration(c.Policy.MinAgeSeconds * float64(time.Second)),
		MaxPerPodContainer: c.Policy.MaxPerPodContainer, MaxContainers: c.Policy.MaxContainers,
	}
	first, second := m.Evict(t.Context(), policy, c.AllSourcesReady, c.EvictNonDeletedPods)
	containers, sandboxes := f.IDs()
	c.Output = recordings.Collected(f.Trace(), containers, sandboxes, textOf(first), textOf(second))
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
