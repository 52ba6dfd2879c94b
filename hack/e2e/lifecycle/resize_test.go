// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// limitsInside is what a container sees of its cgroup now.
func limitsInside(t *testing.T, id string) map[string]string {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	_, id, _ = strings.Cut(id, "://")
	response, err := cri.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"/testprogram", "limits"}, Timeout: 30})
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]string{}
	for line := range strings.Lines(string(response.GetStdout())) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		limits[name] = value
	}
	// One name for both versions of cgroups.
	quota, _, _ := strings.Cut(limits["cpu.max"], " ")
	limits["cpu"] = limits["cpu.cfs_quota_us"] + quota
	limits["memory"] = limits["memory.limit_in_bytes"] + limits["memory.max"]
	return limits
}

func resources(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if value != "" {
			list[name] = resource.MustParse(value)
		}
	}
	return corev1.ResourceRequirements{Limits: list}
}

// resize changes the resources of the first container and waits until the node
// has taken them over.
func resize(w *harness.Workload, r corev1.ResourceRequirements) *v1alpha1.NodeWorkload {
	before := w.Node().Status.TemplateHash
	w.Change(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources = r })
	return w.Await("the resources are taken over", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.TemplateHash != before && nw.Status.ObservedGeneration == nw.Generation && nw.Status.Ready == "1/1"
	})
}

func TestResizeInPlace(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve], resources: {limits: {cpu: 100m, memory: 64Mi}}}`)
	id := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	if limits := limitsInside(t, id); limits["cpu"] != "10000" || limits["memory"] != "67108864" {
		t.Errorf("before: %v", limits)
	}
	for _, step := range []struct{ cpu, memory, wantCPU, wantMemory string }{
		{"300m", "128Mi", "30000", "134217728"},
		{"50m", "32Mi", "5000", "33554432"},
		{"50m", "", "5000", ""},
	} {
		nw := resize(w, resources(step.cpu, step.memory))
		c := nw.Status.ContainerStatuses[0]
		if c.ContainerID != id || c.RestartCount != 0 || nw.Status.KillCount != 0 {
			t.Errorf("container %s became %s, %d restarts, %d kills", id, c.ContainerID, c.RestartCount, nw.Status.KillCount)
		}
		if got := c.Resources.Limits.Cpu(); got.Cmp(resource.MustParse(step.cpu)) != 0 || c.Resources.Limits.Memory().Cmp(resource.MustParse("0"+step.memory)) != 0 {
			t.Errorf("status tells %v, want %s and %s", c.Resources, step.cpu, step.memory)
		}
		if condition := meta.FindStatusCondition(nw.Status.Conditions, string(corev1.PodResizeInProgress)); condition != nil {
			t.Errorf("condition %+v", condition)
		}
		limits := limitsInside(t, id)
		if limits["cpu"] != step.wantCPU || step.wantMemory != "" && limits["memory"] != step.wantMemory ||
			step.wantMemory == "" && limits["memory"] != "max" && len(limits["memory"]) < 16 {
			t.Errorf("inside: %v, want %s and %q", limits, step.wantCPU, step.wantMemory)
		}
	}
	w.AwaitEvent("ResizeStarted", `"limits":{"cpu":"300m","memory":"128Mi"}`)
	w.AwaitEvent("ResizeCompleted", `"limits":{"cpu":"50m","memory":"32Mi"}`)
}

func TestTriggerResizeRequired(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 11
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve]
  resources: {limits: {cpu: 100m, memory: 64Mi}}
  resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]`)
	id := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	if nw := resize(w, resources("200m", "64Mi")); nw.Status.ContainerStatuses[0].ContainerID != id {
		t.Error("CPU changed by a restart: the policy is about memory")
	}
	nw := resize(w, resources("200m", "96Mi"))
	kill := w.AwaitTrigger("c", v1alpha1.TriggerResizeRequired)
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerResizeRequired, Message: "Container c resize requires restart",
		Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace(11, v1alpha1.GraceSourcePod),
	})
	after := nw.Status.ContainerStatuses[0]
	if after.ContainerID == id || after.RestartCount != 1 {
		t.Errorf("container %s became %s with %d restarts", id, after.ContainerID, after.RestartCount)
	}
	if limits := limitsInside(t, after.ContainerID); limits["cpu"] != "20000" || limits["memory"] != "100663296" {
		t.Errorf("after: %v", limits)
	}
	w.AwaitEvent("Killing", "Container c resize requires restart")
}

// A memory limit below what is in use would have the kernel kill: it waits.
func TestResizeBelowUse(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [allocate, "50331648", 10m, /dir/in-use]
  readinessProbe: {exec: {command: [/testprogram, check-file, /dir/in-use]}, periodSeconds: 1, timeoutSeconds: 30}
  resources: {limits: {memory: 128Mi}}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	id := w.AwaitReady().Status.ContainerStatuses[0].ContainerID
	w.Change(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources = resources("", "16Mi") })
	nw := w.Await("the resize fails", func(nw *v1alpha1.NodeWorkload) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, string(corev1.PodResizeInProgress))
		return c != nil && c.Reason == corev1.PodReasonError && strings.Contains(c.Message, `attempting to set container "c" memory limit (16777216) below current usage`)
	})
	if c := nw.Status.ContainerStatuses[0]; c.ContainerID != id || c.RestartCount != 0 {
		t.Errorf("container %s became %s", id, c.ContainerID)
	}
	w.AwaitEvent("ResizeError", "cannot decrease memory limits")
	resize(w, resources("", "256Mi"))
	if limits := limitsInside(t, id); limits["memory"] != "268435456" {
		t.Errorf("after: %v", limits)
	}
}
