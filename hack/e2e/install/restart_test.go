// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// planInPod asks as docs/operations.md says.
func planInPod(t *testing.T, w *harness.Workload) {
	object := kubectl(t, "get", "nw", "-n", w.Namespace, w.Node().Name, "-o", "yaml")
	cmd := exec.CommandContext(t.Context(), env.Stack.KubectlPath(), "--kubeconfig="+env.Stack.Kubeconfig(),
		"-n", system, "exec", "-i", pod(t, "shim").Name, "--",
		"/managedworkload", "plan", "-f", "-", "--runtime-endpoint", "unix:///run/managedworkload/containerd/containerd.sock")
	cmd.Stdin = strings.NewReader(object)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Nothing to do.") {
		t.Errorf("plan in the shim's pod: %v\n%s", err, out)
	}
}

// adopts has the shim or the manager replaced, and finds everything as it was; then a
// change shows that both are at work.
func adopts(t *testing.T, w *harness.Workload, replace func()) {
	t.Helper()
	before, journal := running(t), harness.Texts(w.Journal("main"))
	replace()
	if diff := cmp.Diff(before, running(t)); diff != "" {
		t.Errorf("containers (-before +after):\n%s", diff)
	}
	node := w.Node()
	restarts := containerStatus(t, node, "second").RestartCount
	setEnv(w, "second", t.Name())
	w.Await("a container was restarted", func(nw *v1alpha1.NodeWorkload) bool {
		return containerStatus(t, nw, "second").RestartCount == restarts+1
	})
	w.AwaitReady()
	after := running(t)
	second := w.Node().Name + "/second"
	delete(before, second)
	delete(after, second)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("containers after a change (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(journal, harness.Texts(w.Journal("main"))); diff != "" {
		t.Errorf("a container that was not changed saw (-before +after):\n%s", diff)
	}
	if kills := w.Node().Status.KillCount - node.Status.KillCount; kills != 1 {
		t.Errorf("%d kills, want that of the changed container alone", kills)
	}
}

func restartShim(t *testing.T, w *harness.Workload) {
	adopts(t, w, func() {
		old := pod(t, "shim")
		kubectl(t, "delete", "pod", "-n", system, old.Name)
		awaitPod(t, "shim", "there is a new one", func(pod *corev1.Pod) bool { return pod.UID != old.UID })
	})
}

func crashShim(t *testing.T, w *harness.Workload) {
	adopts(t, w, func() {
		shim := pod(t, "shim")
		if err := unix.Kill(process(t, shim), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitPod(t, "shim", "it was started again", func(pod *corev1.Pod) bool {
			return pod.UID == shim.UID && pod.Status.ContainerStatuses[0].RestartCount == 1
		})
	})
}

// upgrade applies the configuration with another image, as docs/operations.md says.
func upgrade(t *testing.T, w *harness.Workload) {
	adopts(t, w, func() {
		apply(t, "v2")
		rolledOut(t, manager)
		rolledOut(t, shims)
		for _, component := range []string{"manager", "shim"} {
			for _, pod := range pods(t, component) {
				if got := pod.Spec.Containers[0].Image; got != image+":v2" {
					t.Errorf("the %s runs %s", component, got)
				}
			}
		}
	})
}
