// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// Nothing of a deleted workload is left on the node.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	write(t, w, "file", "")
	w.Apply(fmt.Sprintf(`
initContainers:
- {name: init, image: %[1]s, args: [echo, hello]}
- {name: side, image: %[1]s, restartPolicy: Always, volumeMounts: [{name: memory, mountPath: /memory}]}
containers:
- name: c
  image: %[1]s
  ports: [{containerPort: 8080, hostPort: %[2]d}]
  resources: {limits: {memory: 64Mi}}
  volumeMounts: [{name: disk, mountPath: /disk, subPath: part}, {name: memory, mountPath: /memory}, {name: dir, mountPath: /file, subPath: file}]
- {name: exits, image: %[1]s, args: [exit, "1"]}
volumes: [%[3]s, {name: disk, emptyDir: {}}, {name: memory, emptyDir: {medium: Memory}}]`, testImage, freePort(t), dirVolume))
	nw := w.Await("it runs, and a container was started again", func(nw *v1alpha1.NodeWorkload) bool {
		return nw.Status.Phase == corev1.PodRunning && nw.Status.Restarts > 0 && len(nw.Status.PodIPs) > 0
	})
	sandboxes := sandboxesOf(t, w)
	if len(sandboxes) != 1 {
		t.Fatalf("sandboxes %v", sandboxes)
	}
	before := traces(t, nw, sandboxes[0])
	// Otherwise it would prove nothing that they are gone.
	for _, kind := range []string{"pod folder", "checkpoint", "logs", "cgroup", "mount", "host port", "address", "sandbox", "container"} {
		if before[kind] == "" {
			t.Errorf("no %s is to be seen while it runs: %v", kind, before)
		}
	}
	w.DeleteAndCollect()
	for kind, where := range traces(t, nw, sandboxes[0]) {
		t.Errorf("%s is left: %s", kind, where)
	}
	if _, err := os.Stat(filepath.Join(w.Dir, "file")); err != nil {
		t.Errorf("a file of the node is gone: %v", err)
	}
}

// traces are what can be seen of a workload on the node, one example of a kind.
func traces(t *testing.T, nw *v1alpha1.NodeWorkload, sandbox string) map[string]string {
	t.Helper()
	found := map[string]string{}
	uid := string(nw.UID)
	glob := func(kind string, patterns ...string) {
		for _, pattern := range patterns {
			matches, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			if len(matches) > 0 {
				found[kind] = matches[0]
			}
		}
	}
	state, cgroups := env.Stack.ShimStateDir(), "/sys/fs/cgroup"
	glob("pod folder", filepath.Join(state, "pods", uid))
	glob("checkpoint", filepath.Join(state, "workloads", uid+"*"))
	glob("logs", filepath.Join(env.Stack.PodLogDir(), "*"+uid+"*"))
	inSlice := strings.ReplaceAll(uid, "-", "?") // systemd's names have underscores
	glob("cgroup", filepath.Join(cgroups, env.Stack.CgroupParent(), "*"+inSlice+"*"), filepath.Join(cgroups, "*", env.Stack.CgroupParent(), "*"+inSlice+"*"))
	lines := func(kind, text, part string) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, part) {
				found[kind] = line
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines("mount", string(mounts), uid)
	lines("mount", string(mounts), sandbox)
	rules, err := exec.Command("iptables", "-w", "-t", "nat", "-S").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines("host port", string(rules), sandbox)
	err = filepath.WalkDir(filepath.Join(env.Stack.StateDir(), "cni"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		lines("address", string(data), sandbox)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	addRuntimeTraces(t, nw, found)
	return found
}

func addRuntimeTraces(t *testing.T, nw *v1alpha1.NodeWorkload, found map[string]string) {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	selector := map[string]string{"io.kubernetes.pod.uid": string(nw.UID)}
	sandboxes, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes.GetItems() {
		found["sandbox"] = s.GetId()
	}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.GetContainers() {
		found["container"] = c.GetId()
	}
}

// sandboxesOf are the IDs of the workload's sandboxes, ready or not.
func sandboxesOf(t *testing.T, w *harness.Workload) []string {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range list.GetItems() {
		ids = append(ids, s.GetId())
	}
	return ids
}

// The restart count continues after a restart of the shim and in a new
// sandbox. It restarts the shim, so no other test runs beside it.
func TestRestartCountSurvives(t *testing.T) {
	w := env.Apply(t, fmt.Sprintf(`
containers:
- {name: c, image: %s, args: [serve, --log-file=/dir/c, "--http=:8080"], volumeMounts: [%s],
  livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}}
volumes: [%s]`, testImage, dirMount, dirVolume))
	w.AwaitReady()
	restarts := func(n int32) *v1alpha1.NodeWorkload {
		t.Helper()
		return w.Await(fmt.Sprintf("it runs after %d restarts", n), func(nw *v1alpha1.NodeWorkload) bool {
			return nw.Status.Restarts == n && nw.Status.ContainerStatuses[0].State.Running != nil
		})
	}
	w.Change(func(tmpl *corev1.PodTemplateSpec) {
		tmpl.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CHANGED", Value: "yes"}}
	})
	before := restarts(1)
	if err := env.Stack.Shim.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.Stack.Shim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cri.Close() })
	if _, err := cri.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandboxesOf(t, w)[0]}); err != nil {
		t.Fatal(err)
	}
	// A start that came upon the dying sandbox may have failed, and counts too.
	after := w.Await("it runs in a new sandbox", func(nw *v1alpha1.NodeWorkload) bool {
		return len(nw.Status.PodIPs) > 0 && nw.Status.PodIPs[0] != before.Status.PodIPs[0] && nw.Status.ContainerStatuses[0].State.Running != nil
	})
	count := after.Status.Restarts
	if count < 2 || count > 3 {
		t.Errorf("%d restarts after the second start, and %d before", count, before.Status.Restarts)
	}
	w.AwaitEvent("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	w.AwaitLog("c", int(count), "started")
	if n := len(w.AwaitFind("c", "started", 3)); n != 3 {
		t.Errorf("it was started %d times, want 3", n)
	}
	// A pod-level change is a new sandbox as well.
	w.Change(func(tmpl *corev1.PodTemplateSpec) { tmpl.Spec.ShareProcessNamespace = ptr.To(true) })
	restarts(count + 1)
	w.AwaitTrigger("c", v1alpha1.TriggerSandboxChanged)
}
