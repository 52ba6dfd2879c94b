// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/runtime/preview"
)

const planTemplate = `
terminationGracePeriodSeconds: 9
initContainers:
- {name: init, image: managedworkload.dev/testprogram:v1, args: [seq, exit, "0"]}
- {name: side, image: managedworkload.dev/testprogram:v1, restartPolicy: Always}
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1}
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/c, preStop]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]
- {name: other, image: managedworkload.dev/testprogram:v1}` + dirVolume

// planProgram runs the plan command and returns what it printed.
func planProgram(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(env.Stack.StateDir(), "bin", "managedworkload"), append([]string{"plan"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("plan %q: %v\n%s", args, err, &stderr)
	}
	return string(out)
}

// planned runs the plan command on the node's runtime.
func planned(t *testing.T, stdin string, args ...string) preview.Preview {
	t.Helper()
	out := planProgram(t, stdin, append(args, "-o", "json", "--runtime-endpoint", env.Stack.CRIEndpoint())...)
	var p preview.Preview
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("read the plan: %v\n%s", err, out)
	}
	return p
}

// asYAML is what kubectl get -o yaml prints.
func asYAML(t *testing.T, nw *v1alpha1.NodeWorkload) string {
	t.Helper()
	text, err := env.Stack.Kubectl(t.Context(), "get", "nw", nw.Name, "-n", nw.Namespace, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// edited is the YAML of the NodeWorkload with a change that was not applied.
func edited(t *testing.T, nw *v1alpha1.NodeWorkload, edit func(*v1alpha1.NodeWorkload)) string {
	t.Helper()
	next := nw.DeepCopy()
	next.APIVersion, next.Kind = v1alpha1.GroupVersion.String(), "NodeWorkload"
	edit(next)
	text, err := yaml.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// onRuntime is everything that the runtime has of the workload, with its state.
func onRuntime(t *testing.T, w *harness.Workload) []string {
	t.Helper()
	cri, err := env.Stack.CRI()
	if err != nil {
		t.Fatal(err)
	}
	defer cri.Close() //nolint:errcheck // Only a connection.
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": w.Namespace},
	}})
	if err != nil {
		t.Fatal(err)
	}
	all := sandboxes(t, w)
	for _, c := range containers.GetContainers() {
		all = append(all, c.GetMetadata().GetName()+" "+c.GetId()+" "+c.GetState().String())
	}
	slices.Sort(all)
	return all
}

// steps are the kinds of steps of a plan and whom they concern.
func steps(p preview.Preview) []string {
	out := []string{}
	for _, s := range p.Steps {
		out = append(out, strings.TrimSpace(strings.Join([]string{string(s.Action), s.Container, string(s.Trigger)}, " ")))
	}
	return out
}

// runningOn are the containers that a plan keeps.
func runningOn(p preview.Preview) []string {
	out := []string{}
	for _, u := range p.Unaffected {
		if u.State == "running" {
			out = append(out, u.Container)
		}
	}
	return out
}

func TestPlanOfChanges(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, planTemplate)
	nw := w.AwaitReady()
	before := onRuntime(t, w)
	current := filepath.Join(t.TempDir(), "nw.yaml")
	if err := os.WriteFile(current, []byte(asYAML(t, nw)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		edit        func(*v1alpha1.NodeWorkload)
		wantSteps   []string
		wantRunning []string
	}{
		"image": {
			edit:        func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.Containers[0].Image += "-next" },
			wantSteps:   []string{"Pull c", "Kill c DefinitionChanged", "Start c"},
			wantRunning: []string{"side", "other"},
		},
		"probe": {
			edit: func(nw *v1alpha1.NodeWorkload) {
				nw.Spec.Template.Spec.Containers[0].LivenessProbe.FailureThreshold = 9
			},
			wantSteps:   []string{},
			wantRunning: []string{"side", "c", "other"},
		},
		"removed": {
			edit: func(nw *v1alpha1.NodeWorkload) {
				nw.Spec.Template.Spec.Containers = nw.Spec.Template.Spec.Containers[:1]
			},
			wantSteps:   []string{"Kill other ContainerRemoved", "Remove other"},
			wantRunning: []string{"side", "c"},
		},
		"hostname": {
			edit: func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template.Spec.Hostname = "another" },
			wantSteps: []string{
				"Kill side SandboxChanged", "Kill c SandboxChanged", "Kill other SandboxChanged", "StopSandbox", "CreateSandbox", "Start init",
			},
			wantRunning: []string{},
		},
	}
	for name, tc := range tests {
		next := edited(t, nw, tc.edit)
		for _, args := range [][]string{{"--diff", "-"}, {"--diff", "-", "-f", current}} {
			p := planned(t, next, args...)
			if diff := cmp.Diff(tc.wantSteps, steps(p)); diff != "" {
				t.Errorf("%s: steps of plan %q (-want +got):\n%s", name, args, diff)
			}
			if diff := cmp.Diff(tc.wantRunning, runningOn(p)); diff != "" {
				t.Errorf("%s: running on by plan %q (-want +got):\n%s", name, args, diff)
			}
		}
	}
	if diff := cmp.Diff(before, onRuntime(t, w)); diff != "" {
		t.Errorf("planning changed the runtime (-before +after):\n%s", diff)
	}
	if again := w.Node(); len(again.Status.Kills) != 0 {
		t.Errorf("planning killed: %+v", again.Status.Kills)
	}
}

func TestPlanOfSteadyWorkload(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, planTemplate)
	nw := w.AwaitReady()
	before := onRuntime(t, w)
	mw, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ManagedWorkload",
		"metadata": map[string]any{"name": w.Name, "namespace": w.Namespace}, "spec": w.Get().Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		text string
		args []string
	}{
		"NodeWorkload":    {text: asYAML(t, nw), args: []string{"-f", "-"}},
		"without UID":     {text: edited(t, nw, func(nw *v1alpha1.NodeWorkload) { nw.UID = "" }), args: []string{"-f", "-"}},
		"ManagedWorkload": {text: string(mw), args: []string{"-f", "-", "--node-name", env.Stack.NodeName()}},
	}
	for name, tc := range tests {
		p := planned(t, tc.text, tc.args...)
		if len(p.Steps) != 0 || len(p.Blocked) != 0 || p.NodeWorkload.UID != nw.UID {
			t.Errorf("%s: %+v, want nothing to do for %s", name, p, nw.UID)
		}
		if got := runningOn(p); !slices.Equal(got, []string{"side", "c", "other"}) {
			t.Errorf("%s: %q run on", name, got)
		}
	}
	table := planProgram(t, asYAML(t, nw), "-f", "-", "--runtime-endpoint", env.Stack.CRIEndpoint())
	if !strings.Contains(table, "Nothing to do.") || strings.Count(table, "no kill") != 3 {
		t.Errorf("the table is\n%s", table)
	}
	if diff := cmp.Diff(before, onRuntime(t, w)); diff != "" {
		t.Errorf("planning changed the runtime (-before +after):\n%s", diff)
	}
}

// What is planned for a change is what the shim records when the change comes.
func TestPlanComesTrue(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, planTemplate)
	nw := w.AwaitReady()
	tmpl := nw.Spec.Template.DeepCopy()
	tmpl.Spec.Containers[0].Image = "managedworkload.dev/testprogram:v2"
	tmpl.Spec.Containers[0].Lifecycle = nil
	seconds := int64(40)
	tmpl.Spec.TerminationGracePeriodSeconds = &seconds
	p := planned(t, edited(t, nw, func(nw *v1alpha1.NodeWorkload) { nw.Spec.Template = *tmpl }), "--diff", "-")
	kills := p.Kills()
	if len(kills) != 1 {
		t.Fatalf("planned kills %+v, want one", kills)
	}
	w.ApplyTemplate(*tmpl)
	got := w.AwaitTrigger("c", v1alpha1.TriggerDefinitionChanged)
	checkKill(t, got, v1alpha1.KillRecord{
		Trigger: kills[0].Trigger, Message: kills[0].Message, Outcome: v1alpha1.KillOutcomeGraceful,
		Grace: grace(kills[0].Grace.Seconds, kills[0].Grace.Source),
	})
	if got.ContainerID != kills[0].ID || got.PreStop == nil || got.PreStop.Handler != kills[0].PreStop || got.Grace.Seconds != 9 {
		t.Errorf("recorded %s, hook %+v, %d s; planned %+v with the recorded 9 s", got.ContainerID, got.PreStop, got.Grace.Seconds, kills[0])
	}
	if n := w.AwaitReady().Status.KillCount; n != 1 {
		t.Errorf("%d kills, want the one that was planned", n)
	}
}
