// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

const template = `
terminationGracePeriodSeconds: 7
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve], lifecycle: {preStop: {exec: {command: [/testprogram, append, /dev/null, preStop]}}}}
- {name: other, image: managedworkload.dev/testprogram:v1, args: [serve]}`

// Both names reach the plugin, and its exit codes reach scripts.
func TestNamesAndExitCodes(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	for _, name := range []string{"mw", "managedworkload"} {
		kubectl(t, w, "", name, "--help").want(t, 0, "kubectl "+name+" [command]")
		kubectl(t, w, "", name, "rollout", "status", "nothing").want(t, 2)
		kubectl(t, w, "", name, "rollout", "satus", "nothing").want(t, 2)
	}
}

func TestRolloutStatusAndRestart(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, template)
	const done = `managedworkload "w" successfully rolled out`
	kubectl(t, w, "", "mw", "rollout", "status", "w", "--timeout=2m").want(t, 0, done)
	kubectl(t, w, "", "mw", "rollout", "restart", "mw/w").want(t, 0, "managedworkload.managedworkload.dev/w restarted")
	kubectl(t, w, "", "mw", "rollout", "status", "w", "--timeout=2m").want(t, 0, done)
	kill := w.AwaitTrigger("c", v1alpha1.TriggerRestartRequested)
	if kill.Grace.Seconds != 7 {
		t.Errorf("the restart had a grace period of %d s", kill.Grace.Seconds)
	}
	kubectl(t, w, "", "mw", "why", "w").want(t, 0, "restart requested, exited 0", "preStop (exec)", "Grace 7s from terminationGracePeriodSeconds of the template", env.Stack.NodeName())
	kubectl(t, w, "", "mw", "why", w.Node().Name, "-c", "c").want(t, 0, "restart requested, exited 0")
	kubectl(t, w, "", "mw", "timeline", "w").want(t, 0, env.Stack.NodeName()+"  c\n", "restart requested; preStop (exec)", "SIGTERM", "of 7s used")
	kubectl(t, w, "", "mw", "timeline", "w", "-o", "html").want(t, 0, "<!DOCTYPE html>", "restart requested", "</html>")
	r := kubectl(t, w, "", "mw", "timeline", "w", "-o", "json")
	var timeline struct{ Lanes []struct{ Container string } }
	if err := json.Unmarshal([]byte(r.out), &timeline); err != nil || len(timeline.Lanes) != 2 {
		t.Errorf("timeline as JSON: %v: %+v", err, r)
	}
}

// What kubectl get prints of DaemonSets is what convert reads, and kubectl apply takes the result.
func TestConvertsWhatKubectlGets(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	for _, name := range []string{"one", "two"} {
		kubectl(t, w, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: `+name+`, annotations: {kubernetes.io/change-cause: test}}
spec:
  selector: {matchLabels: {app: w}}
  template:
    metadata: {labels: {app: w}}
    spec: {nodeSelector: {no: where}, containers: [{name: c, image: 'managedworkload.dev/testprogram:v1'}]}
`, "apply", "-f", "-").want(t, 0, "created")
	}
	got := kubectl(t, w, "", "get", "daemonsets,services", "-o", "yaml")
	got.want(t, 0, "kind: List")
	converted := kubectl(t, w, got.out, "mw", "convert", "-f", "-", "-o", "json")
	converted.want(t, 0, `"kind": "List"`)
	if !strings.Contains(converted.err, "one: dropped: metadata.annotations[kubernetes.io/change-cause]") {
		t.Errorf("standard error does not name the annotation:\n%s", converted.err)
	}
	kubectl(t, w, converted.out, "apply", "--dry-run=server", "-f", "-").want(t, 0, "/one created (server dry run)", "/two created (server dry run)")
}

func TestConvertedDaemonSetRuns(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	converted := kubectl(t, w, `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: w}
spec:
  selector: {matchLabels: {app: w}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: w}}
    spec:
      terminationGracePeriodSeconds: 3
      schedulerName: other
      containers: [{name: c, image: 'managedworkload.dev/testprogram:v1', args: [serve]}]
`, "mw", "convert", "-f", "-")
	converted.want(t, 0, "kind: ManagedWorkload")
	for _, want := range []string{"dropped: spec.updateStrategy.rollingUpdate.maxSurge", "ignored: spec.template.spec.schedulerName", "dropped: spec.selector"} {
		if !strings.Contains(converted.err, want) {
			t.Errorf("standard error lacks %q:\n%s", want, converted.err)
		}
	}
	kubectl(t, w, converted.out, "apply", "-f", "-").want(t, 0, "managedworkload.managedworkload.dev/w created")
	kubectl(t, w, "", "mw", "rollout", "status", "w", "--timeout=2m").want(t, 0, "successfully rolled out")
	w.AwaitReady()
}

// plan is what -o json of plan says, as far as it matters here.
type plan struct {
	Kills   int
	Batches [][]struct {
		Node  string
		Kills []struct {
			Container, Message, PreStop string
			Trigger                     v1alpha1.KillTrigger
			GraceSeconds                int64
			GraceSource                 v1alpha1.GraceSource
		}
	}
}

// asFile is a ManagedWorkload with a template as a file of kubectl apply.
func asFile(t *testing.T, w *harness.Workload, text string) string {
	t.Helper()
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ManagedWorkload", "metadata": map[string]any{"name": w.Name},
		"spec": map[string]any{"template": w.Parse(text)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What plan says is what then happens.
func TestPlanComesTrue(t *testing.T) {
	t.Parallel()
	w := env.New(t)
	kubectl(t, w, asFile(t, w, template), "apply", "-f", "-").want(t, 0, "created")
	w.AwaitReady()
	kubectl(t, w, asFile(t, w, template), "mw", "plan", "-f", "-").want(t, 0, "no node would change")

	harmless := asFile(t, w, strings.Replace(template, "Seconds: 7", "Seconds: 9", 1))
	kubectl(t, w, harmless, "mw", "plan", "-f", "-").want(t, 0, "no container would be killed; 1 node would change in 1 batch")

	next := asFile(t, w, strings.Replace(template, "testprogram:v1", "testprogram:v2", 1))
	kubectl(t, w, next, "mw", "plan", "-f", "-").want(t, 1, "1 container would be killed", "kill c: DefinitionChanged (image); grace 7s (Pod); preStop exec")
	r := kubectl(t, w, next, "mw", "plan", "-f", "-", "-o", "json")
	var p plan
	if err := json.Unmarshal([]byte(r.out), &p); err != nil || p.Kills != 1 || len(p.Batches) != 1 || p.Batches[0][0].Node != env.Stack.NodeName() {
		t.Fatalf("plan: %v: %+v", err, r)
	}
	if n := w.Node().Status.KillCount; n != 0 {
		t.Fatalf("planning killed %d times", n)
	}
	want := p.Batches[0][0].Kills[0]
	kubectl(t, w, next, "apply", "-f", "-").want(t, 0, "configured")
	kubectl(t, w, "", "mw", "rollout", "status", "w", "--timeout=2m").want(t, 0, "successfully rolled out")
	got := w.AwaitTrigger(want.Container, want.Trigger)
	if got.Message != want.Message || got.Grace.Seconds != want.GraceSeconds || got.Grace.Source != want.GraceSource || got.PreStop == nil || got.PreStop.Handler != want.PreStop {
		t.Errorf("recorded %+v, planned %+v", got, want)
	}
	if n := w.AwaitReady().Status.KillCount; n != 1 {
		t.Errorf("%d kills, 1 was planned", n)
	}
	kubectl(t, w, next, "mw", "plan", "-f", "-").want(t, 0, "no node would change")
}

// A roll-out that is paused waits, and one that is undone is back at what was there before.
func TestPauseAndUndo(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, template)
	status := func(code int, want string, args ...string) {
		t.Helper()
		kubectl(t, w, "", append([]string{"mw", "rollout", "status", "w"}, args...)...).want(t, code, want)
	}
	const done, patch = `managedworkload "w" successfully rolled out`, `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "managedworkload.dev/testprogram:v2"}]`
	status(0, done, "--timeout=2m")
	kubectl(t, w, "", "mw", "rollout", "pause", "w").want(t, 0, "w paused")
	kubectl(t, w, "", "patch", "mw", "w", "--type=json", "-p", patch).want(t, 0, "patched")
	status(1, "paused with 0 out of 1 nodes updated", "--timeout=5s")
	kubectl(t, w, "", "mw", "rollout", "undo", "w").want(t, 2)
	if image := w.Node().Spec.Template.Spec.Containers[0].Image; image != "managedworkload.dev/testprogram:v1" {
		t.Errorf("a paused roll-out gave the node %s", image)
	}
	kubectl(t, w, "", "mw", "rollout", "resume", "w", "-o", "name").want(t, 0, "managedworkload.managedworkload.dev/w\n")
	status(0, done, "--timeout=2m")
	kubectl(t, w, "", "mw", "rollout", "history", "w").want(t, 0, "REVISION", "2*", "CHANGE-CAUSE")
	kubectl(t, w, "", "mw", "rollout", "undo", "w").want(t, 0, "w rolled back")
	status(0, done, "--timeout=2m")
	if image := w.AwaitReady().Spec.Template.Spec.Containers[0].Image; image != "managedworkload.dev/testprogram:v1" {
		t.Errorf("after the undo the node has %s", image)
	}
	kubectl(t, w, "", "mw", "rollout", "history", "w").want(t, 0, "3*")
	kubectl(t, w, "", "mw", "why", "w", "-c", "c").want(t, 0, "Requested by kubectl-managedworkload (changed: image)")
}

// A dry run kills nothing and leaves nothing, a restart is done when the command is, and what is
// stopped stays so until it is released.
func TestKillAndRelease(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, template)
	w.AwaitReady()
	kubectl(t, w, "", "mw", "kill", "w", "--action=restart").want(t, 2)
	kubectl(t, w, "", "mw", "kill", "w", "--action=restart", "--node", env.Stack.NodeName(), "-c", "c", "--dry-run").
		want(t, 0, "dry run: 1 of 1 nodes done", "c: would be killed: RestartRequested, grace period 7 s (Pod)")
	if left := kubectl(t, w, "", "get", "kr", "-o", "name"); left.out != "" || w.Node().Status.KillCount != 0 {
		t.Errorf("after a dry run: %q, %d kills", left.out, w.Node().Status.KillCount)
	}
	kubectl(t, w, "", "mw", "kill", "w", "--action=restart", "--all", "-c", "c", "--reason=leaks", "--wait", "--timeout=2m").want(t, 0, "Succeeded: 1 of 1 nodes done")
	if kill := w.AwaitTrigger("c", v1alpha1.TriggerRestartRequested); !strings.HasSuffix(kill.Message, ": leaks") || kill.Grace.Seconds != 7 {
		t.Errorf("recorded %+v", kill)
	}
	stopped := kubectl(t, w, "", "mw", "kill", "w", "--action=stop", "--all", "-c", "other", "--wait", "--timeout=2m", "-o", "json")
	stopped.want(t, 0)
	request := v1alpha1.KillRequest{}
	if err := json.Unmarshal([]byte(stopped.out), &request); err != nil || request.Status.Phase != v1alpha1.RequestHeld {
		t.Fatalf("%v: %+v", err, stopped)
	}
	kubectl(t, w, "", "mw", "release", "w").want(t, 2)
	kubectl(t, w, "", "mw", "release", request.Name).want(t, 0, "released")
	w.Await("all run again", func(nw *v1alpha1.NodeWorkload) bool {
		return len(nw.Status.Requests) == 0 && meta.IsStatusConditionTrue(nw.Status.Conditions, v1alpha1.ConditionReady)
	})
}
