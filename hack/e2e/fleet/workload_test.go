// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/localstack"
)

// workload is a ManagedWorkload on all nodes.
type workload struct {
	*harness.Workload
	t *testing.T
}

// manifest is a server that takes three seconds to end, so that containers that are stopped together
// are down together on a busy machine, too. Its container on each node keeps a
// journal of the node's name.
const manifest = `apiVersion: managedworkload.dev/v1alpha1
kind: ManagedWorkload
metadata: {name: %s, namespace: %s}
spec:
%s  template:
    metadata: {labels: {app: w}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: c
        image: %s
        args: [serve, --log-file=/dir/$(NODE), --count-file=/dir/$(NODE).runs, "--on-term=delay:3s", "--http=:8080"]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: dir, mountPath: /dir}]
      volumes: [{name: dir, hostPath: {path: %s}}]
`

// start applies a workload with lines of its spec and waits until all nodes are ready.
func start(t *testing.T, spec ...string) *workload {
	t.Helper()
	w := &workload{Workload: env.New(t), t: t}
	w.apply(localstack.ImageV1, spec...)
	w.AwaitReady()
	return w
}

// apply applies the manifest with an image and lines of the spec.
func (w *workload) apply(image string, spec ...string) {
	w.t.Helper()
	w.kubectl("apply", "-f", w.write(image, spec...))
}

// write writes the file that apply applies.
func (w *workload) write(image string, spec ...string) (file string) {
	w.t.Helper()
	lines := ""
	for _, line := range spec {
		lines += "  " + line + "\n"
	}
	file = filepath.Join(w.Dir, "workload.yaml")
	text := fmt.Sprintf(manifest, w.Name, w.Namespace, lines, image, w.Dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// kubectl runs kubectl in the workload's namespace.
func (w *workload) kubectl(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), harness.Timeout)
	defer cancel()
	out, err := env.Stack.Kubectl(ctx, append([]string{"--namespace=" + w.Namespace}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// processes are the PIDs of the workload's container by node.
func (w *workload) processes() map[string]int {
	w.t.Helper()
	processes := map[string]int{}
	for _, n := range env.Stack.Nodes {
		processes[n.NodeName()] = w.On(n).Processes()["c"]
	}
	return processes
}

// wantProcesses fails unless the very processes still run, and each container has
// started once.
func (w *workload) wantProcesses(want map[string]int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.processes()); diff != "" {
		w.t.Errorf("PIDs by node (-before +after):\n%s", diff)
	}
	w.wantStarts(1)
}

// wantStarts fails unless the container has started so often on each node, and saw one
// SIGTERM less.
func (w *workload) wantStarts(want int) {
	w.t.Helper()
	for _, n := range env.Stack.Nodes {
		started, stopped := len(w.AwaitFind(n.NodeName(), "started", want)), len(w.Find(n.NodeName(), "signal SIGTERM"))
		if started != want || stopped != want-1 {
			w.t.Errorf("%s: %d starts, want %d: %q", n.NodeName(), started, want, harness.Texts(w.Journal(n.NodeName())))
		}
	}
}

// share is the NodeWorkload on a node.
func (w *workload) share(node *localstack.Node) *v1alpha1.NodeWorkload {
	w.t.Helper()
	return w.On(node).Node()
}

// image is that of a NodeWorkload.
func image(nw *v1alpha1.NodeWorkload) string { return nw.Spec.Template.Spec.Containers[0].Image }
