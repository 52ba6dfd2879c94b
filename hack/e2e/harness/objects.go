// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/objects"
)

// AllowObjects lets the manager read the namespace's ConfigMaps and Secrets, and make tokens of its
// service accounts, by the commands of docs/objects.md.
func (w *Workload) AllowObjects() {
	w.t.Helper()
	for _, name := range []string{"managedworkload-objects", "managedworkload-tokens"} {
		w.MustKubectl("", "create", "rolebinding", name, "--clusterrole="+name, "--serviceaccount=managedworkload-system:managedworkload-manager")
	}
}

// Follow runs the commands of kubectl that a condition asks for, each after "run: ".
func (w *Workload) Follow(message string) {
	w.t.Helper()
	asked := strings.Split(message, "run: ")
	if len(asked) < 2 {
		w.t.Fatalf("no command in %q", message)
	}
	for _, commands := range asked[1:] {
		commands, _, _ = strings.Cut(commands, ";")
		for command := range strings.SplitSeq(commands, " && ") {
			w.MustKubectl("", strings.Fields(command)[1:]...)
		}
	}
}

// MustKubectl runs kubectl in the workload's namespace, which has to succeed.
func (w *Workload) MustKubectl(stdin string, args ...string) string {
	w.t.Helper()
	out, errOut, code := w.Kubectl(stdin, args...)
	if code != 0 {
		w.t.Fatalf("kubectl %s: exit code %d: %s", strings.Join(args, " "), code, errOut)
	}
	return out
}

// KubectlApply applies manifests in the workload's namespace.
func (w *Workload) KubectlApply(manifests string) {
	w.t.Helper()
	w.MustKubectl(manifests, "apply", "-f", "-")
}

// awaitDefaults waits until the namespace has what kube-controller-manager makes in each.
func (w *Workload) awaitDefaults() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Timeout)
	defer cancel()
	for name, object := range map[string]client.Object{"default": &corev1.ServiceAccount{}, objects.RootCA: &corev1.ConfigMap{}} {
		for {
			err := w.env.Kube.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, object)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				w.t.Fatalf("kube-controller-manager has not made %s: %v\n%s", name, err, w.env.Stack.ControllerManager.Tail())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
