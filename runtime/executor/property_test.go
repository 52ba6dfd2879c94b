// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// TestProperties carries random plans out on a runtime that fails now and then,
// and looks at what must hold whatever happens.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			w := drawWorld(rt)
			for range 4 {
				w.sync(rt)
			}
			w.converge(rt)
			w.terminate(rt)
		})
	})
}

// world is a pod and the runtime it runs on.
type world struct {
	pod     *corev1.Pod
	f       *fakeRuntime
	e       *Executor
	backoff map[string]*plan.Backoff
	healthy bool
}

func drawWorld(rt *rapid.T) *world {
	w := &world{f: newFakeRuntime(), backoff: map[string]*plan.Backoff{}}
	w.e = newFakeExecutor(w.f)
	w.pod = testPod(rapid.Int64Range(0, 40).Draw(rt, "grace"), nil)
	w.pod.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure,
	}).Draw(rt, "policy")
	w.pod.Spec.Containers = nil
	w.f.SandboxKills = true
	w.f.Hooks, w.f.Images = map[string]recordings.Hook{}, map[string]bool{"img:1": true}
	always := corev1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(0, 3).Draw(rt, "inits") {
		c := corev1.Container{Name: fmt.Sprintf("init%d", i), Image: "img:1"}
		if rapid.Bool().Draw(rt, "sidecar") {
			c.RestartPolicy = &always
			w.drawHook(rt, &c)
		}
		w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "mains") {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "img:1"}
		w.drawHook(rt, &c)
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, c)
	}
	return w
}

func (w *world) drawHook(rt *rapid.T, c *corev1.Container) {
	if rapid.Bool().Draw(rt, "hook") {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"prestop", c.Name}},
		}}
		w.f.Hooks["prestop/"+c.Name] = recordings.Hook{Seconds: rapid.Float64Range(0, 60).Draw(rt, "hookSeconds")}
	}
}

// trouble lets containers exit, become unknown, fail to stop or only seem to, and
// the sandbox die.
func (w *world) trouble(rt *rapid.T) {
	for _, c := range w.f.Containers {
		c.StopError, c.StopSeconds, c.RunsOn = "", rapid.Float64Range(0, 50).Draw(rt, "stopSeconds"), false
		if w.healthy {
			continue
		}
		c.RunsOn = rapid.IntRange(0, 4).Draw(rt, "runsOn") == 0
		c.StopError = rapid.SampledFrom([]string{"", "", "", "Unknown", "DeadlineExceeded"}).Draw(rt, "stopError")
		if c.State != plan.ContainerRunning {
			continue
		}
		switch rapid.IntRange(0, 5).Draw(rt, "fate") {
		case 0:
			c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 1, time.Now()
		case 1:
			c.State = plan.ContainerUnknown
		}
	}
	if !w.healthy && len(w.f.Sandboxes) > 0 && rapid.IntRange(0, 4).Draw(rt, "sandbox") == 0 {
		w.f.Sandboxes[0].State = plan.SandboxNotReady
	}
}

// initsEnd lets ordinary init containers succeed.
func (w *world) initsEnd() {
	for _, c := range w.f.Containers {
		if spec := podspec.Container(w.pod, c.Name); c.State == plan.ContainerRunning && spec != nil &&
			spec.RestartPolicy == nil && podspec.FieldPath(w.pod, c.Name)[:len("spec.init")] == "spec.init" {
			c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 0, time.Now()
		}
	}
}

// probes fail at random.
func (w *world) probes(rt *rapid.T, observed *plan.PodStatus) map[string]plan.ProbeResults {
	results := map[string]plan.ProbeResults{}
	for i := range observed.Containers {
		verdict := plan.ProbeSuccess
		if !w.healthy && rapid.IntRange(0, 4).Draw(rt, "liveness") == 0 {
			verdict = plan.ProbeFailure
		}
		results[observed.Containers[i].ID] = plan.ProbeResults{Liveness: verdict}
	}
	return results
}

// sync plans and acts once, and reports whether there may be more to do: not after
// a sync that did nothing, or one that ended the pod.
func (w *world) sync(rt *rapid.T) bool {
	w.trouble(rt)
	w.initsEnd()
	observed := w.f.observed()
	actions := plan.Compute(plan.Input{Pod: w.pod, Observed: observed, Probes: w.probes(rt, observed)})
	before := len(w.f.Trace())
	result := w.e.SyncPod(rt.Context(), plan.SyncRequest{Pod: w.pod, Observed: observed, Actions: actions, Backoff: w.backoff})
	w.check(rt, before, &result)
	time.Sleep(10 * time.Minute)
	ended := actions.KillPod && !actions.CreateSandbox
	return len(w.f.Trace()) > before && !ended
}

func (w *world) check(rt *rapid.T, before int, result *plan.SyncOutcome) {
	failed := false
	for _, r := range result.Results {
		failed = failed || (r.Err != nil && (r.Action == plan.ActionKillContainer || r.Action == plan.ActionKillPodSandbox))
	}
	for _, e := range w.f.Trace()[before:] {
		op := e.Text("op")
		if failed && (op == "CreateContainer" || op == "StartContainer" || op == "RunPodSandbox") {
			rt.Fatalf("%v in a sync that failed to kill", e)
		}
		if op == "StopContainer" && e["timeout"].(float64) < float64(plan.MinimumGracePeriod) {
			rt.Fatalf("a grace period below the minimum: %v", e)
		}
	}
	instances := map[string]int{}
	for _, c := range w.f.Containers {
		if c.State == plan.ContainerRunning || c.State == plan.ContainerUnknown {
			instances[c.Name]++
		}
		if instances[c.Name] > 1 {
			rt.Fatalf("two instances of %s", c.Name)
		}
	}
	for _, rec := range w.f.lastRecords() {
		if rec.Phase != v1alpha1.KillPhaseDone || rec.Outcome == "" {
			rt.Fatalf("a kill has ended without a whole record: %+v", rec)
		}
	}
}

// converge: without trouble a plan leads to where nothing is to be done.
func (w *world) converge(rt *rapid.T) {
	w.healthy = true
	for range 20 {
		if !w.sync(rt) {
			return
		}
	}
	rt.Fatalf("does not converge: %v", w.f.Trace()[max(0, len(w.f.Trace())-10):])
}

// terminate: everything ends within its grace period, and nothing starts.
func (w *world) terminate(rt *rapid.T) {
	before, begun := len(w.f.Trace()), time.Now()
	grace := rapid.Int64Range(1, 60).Draw(rt, "deletionGrace")
	_, err := w.e.KillPod(rt.Context(), plan.KillRequest{
		Pod: w.pod, Observed: w.f.observed(), Trigger: v1alpha1.TriggerTermination, Override: override(&grace),
	})
	if err != nil {
		rt.Fatalf("terminate: %v", err)
	}
	w.check(rt, before, &plan.SyncOutcome{})
	// Those that wait for their turn get two seconds each beyond it, and a whole
	// second is never taken off for a part of it.
	most := seconds(grace) + time.Duration(1+len(w.pod.Spec.InitContainers))*3*time.Second
	if took := time.Since(begun); took > most {
		rt.Fatalf("took %v with a grace period of %d s", took, grace)
	}
	for _, c := range w.f.Containers {
		if c.State == plan.ContainerRunning {
			rt.Fatalf("%s still runs", c.Name)
		}
	}
}
