// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// newOnFirst is a workload for the first node alone.
func newOnFirst(t *testing.T) *harness.Workload {
	t.Helper()
	w := env.New(t)
	w.Nodes = 1
	return w
}

// onFirst is a template that matches the first node alone.
func onFirst(w *harness.Workload, text string) corev1.PodTemplateSpec {
	template := w.Parse(text)
	template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: env.Stack.NodeName()}
	return template
}

func applyOnFirst(t *testing.T, text string) *harness.Workload {
	t.Helper()
	w := newOnFirst(t)
	w.ApplyTemplate(onFirst(w, text))
	return w
}

// spread is a workload on all nodes. Its container on each writes a journal of the node's
// name.
type spread struct{ *harness.Workload }

func applyToAll(t *testing.T) spread {
	t.Helper()
	return spread{env.Apply(t, `
terminationGracePeriodSeconds: 5
containers:
- name: main
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/$(NODE), "--http=:8080"]
  env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
  livenessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
  readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
  volumeMounts: [{name: dir, mountPath: /dir}, {name: disk, mountPath: /disk}]
volumes: [{name: dir, hostPath: {path: $DIR}}, {name: disk, emptyDir: {}}]`)}
}

// take is what the workload is on each node.
func (s spread) take(t *testing.T) map[string]picture {
	t.Helper()
	pictures := map[string]picture{}
	for _, n := range env.Stack.Nodes {
		p := takeOn(t, s.Workload, n)
		if len(p.PIDs) != 1 || len(p.Journals[n.NodeName()]) == 0 || p.UID == "" {
			t.Fatalf("%s: want one process with a journal: %+v", n.NodeName(), p)
		}
		pictures[n.NodeName()] = p
	}
	return pictures
}

// wantKept wants the workload to be as before on all nodes. A change that restarts nothing, a
// grace period in seconds, shows that the manager and each shim have it.
func (s spread) wantKept(t *testing.T, before map[string]picture, grace int64) {
	t.Helper()
	generations := map[string]int64{}
	for _, n := range env.Stack.Nodes {
		generations[n.NodeName()] = s.On(n).Node().Generation
	}
	s.Change(func(template *corev1.PodTemplateSpec) { template.Spec.TerminationGracePeriodSeconds = ptr.To(grace) })
	for _, n := range env.Stack.Nodes {
		s.On(n).Await("it is taken over on "+n.NodeName(), func(nw *v1alpha1.NodeWorkload) bool {
			return nw.Generation > generations[n.NodeName()] && ready(nw)
		})
	}
	if diff := cmp.Diff(before, s.take(t)); diff != "" {
		t.Errorf("on all nodes (-before +after):\n%s", diff)
	}
}

// change has each shim kill and restart a container that another one created.
func (s spread) change(t *testing.T) {
	t.Helper()
	s.Change(func(template *corev1.PodTemplateSpec) {
		c := &template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "CHANGE", Value: "one"})
	})
	s.AwaitReady()
	for _, n := range env.Stack.Nodes {
		wantJournal(t, s.On(n), n.NodeName(), "started", "signal SIGTERM", "stopped code=0", "started")
	}
	for node, p := range s.take(t) {
		if p.Restarts != 1 || p.KillCount != 1 || p.Kills[0].Trigger != v1alpha1.TriggerDefinitionChanged {
			t.Errorf("%s: %d restarts, kills: %+v", node, p.Restarts, p.Kills)
		}
	}
}
