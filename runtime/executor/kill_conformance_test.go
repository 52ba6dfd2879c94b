// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// killVector is a line of kill-trace or order-trace.
type killVector struct {
	recordings.Kill[killAnswer]
}

type killAnswer struct {
	Error   string              `json:"error"`
	Results []recordings.Result `json:"results"`
	Failed  bool                `json:"failed"`
	Trace   []entry             `json:"trace"`
	Stops   []entry             `json:"stops"`
}

// runtime builds the fake runtime of a vector.
func (v *killVector) runtime(t *testing.T) *fakeRuntime {
	f := newFakeRuntime()
	f.Hooks = v.Hooks
	for _, c := range v.Runtime.Containers {
		fc := &fakeContainer{StopError: c.StopError}
		fc.ID, fc.Name, fc.State, fc.StartedAt = c.ID, c.Name, plan.ContainerRunning, f.start
		fc.StopSeconds, fc.Recorded = c.StopSeconds, recordedOf(t, c.Annotations)
		f.Containers = append(f.Containers, fc)
	}
	for _, s := range v.Runtime.Sandboxes {
		f.Sandboxes = append(f.Sandboxes, &fakeSandbox{StopError: s.StopError, SandboxStatus: plan.SandboxStatus{
			ID: s.ID, State: plan.SandboxState(s.State), Network: &plan.SandboxNetwork{IP: s.IP},
		}})
	}
	return f
}

// recordedOf reads the annotations that the kubelet puts on a container.
func recordedOf(t *testing.T, annotations map[string]string) (rec plan.Recorded) {
	t.Helper()
	for key, field := range map[string]**int64{
		"io.kubernetes.pod.terminationGracePeriod": &rec.TerminationGracePeriodSeconds,
		"io.kubernetes.pod.deletionGracePeriod":    &rec.DeletionGracePeriodSeconds,
	} {
		if s, ok := annotations[key]; ok {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			*field = &n
		}
	}
	for key, field := range map[string]any{
		"io.kubernetes.container.preStopHandler": &rec.PreStop,
		"io.kubernetes.container.ports":          &rec.Ports,
	} {
		if s, ok := annotations[key]; ok {
			if err := json.Unmarshal([]byte(s), field); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rec
}

// pod returns the pod of a vector: without one, whose container it is by its
// labels, and that the record counts.
func (v *killVector) pod() *corev1.Pod {
	if v.Pod != nil {
		return v.Pod
	}
	pod := &corev1.Pod{}
	for _, c := range v.Runtime.Containers {
		if c.ID == v.ContainerID {
			pod.Name, pod.Namespace = c.Labels["io.kubernetes.pod.name"], c.Labels["io.kubernetes.pod.namespace"]
			pod.UID = types.UID(c.Labels["io.kubernetes.pod.uid"])
		}
	}
	return pod
}

// kill decides about the kill of a vector. Without a pod it goes by the container's
// record, as that of garbage does.
func (v *killVector) kill(t *testing.T, e *Executor, trigger v1alpha1.KillTrigger) (plan.Kill, error) {
	grace := override(v.GracePeriodOverride)
	if v.Pod != nil {
		status := &plan.ContainerStatus{ID: v.ContainerID, Name: v.ContainerName}
		return plan.DecideKill(v.Pod, status, plan.Kill{Trigger: trigger, Message: v.Message}, grace, plan.Differences{}), nil
	}
	status, err := e.containerStatus(t.Context(), v.ContainerID)
	if err != nil {
		return plan.Kill{}, err
	}
	kill := plan.GarbageKill(v.pod(), &status)
	kill.Message = v.Message
	if grace != nil {
		kill.Grace = *grace
	}
	return kill, nil
}

// killReasons are the triggers that the kubelet's reasons stand for.
var killReasons = map[string]v1alpha1.KillTrigger{
	"":                     v1alpha1.TriggerTermination,
	"Unknown":              v1alpha1.TriggerUnknownState,
	"StartupProbe":         v1alpha1.TriggerStartupProbe,
	"LivenessProbe":        v1alpha1.TriggerLivenessProbe,
	"FailedPostStartHook":  v1alpha1.TriggerPostStartHookFailed,
	"RestartAllContainers": v1alpha1.TriggerRestartAllContainers,
}

func TestConformanceKillTrace(t *testing.T) {
	eachVector(t, "kill-trace", func(t *testing.T, v *killVector, excluded exclusions) {
		synctest.Test(t, func(t *testing.T) {
			switch v.Mode {
			case "killContainer":
				replayKillContainer(t, v, excluded)
			case "killPod":
				replayKillPod(t, v, excluded, true)
			default:
				t.Fatalf("unknown mode %q", v.Mode)
			}
		})
	})
}

func TestConformanceOrderTrace(t *testing.T) {
	eachVector(t, "order-trace", func(t *testing.T, v *killVector, excluded exclusions) {
		synctest.Test(t, func(t *testing.T) { replayKillPod(t, v, excluded, false) })
	})
}

func replayKillContainer(t *testing.T, v *killVector, excluded exclusions) {
	f := v.runtime(t)
	e := newKubeletExecutor(f)
	trigger, known := killReasons[v.Reason]
	if !known {
		t.Fatalf("unknown reason %q", v.Reason)
	}
	kill, err := v.kill(t, e, trigger)
	if err == nil {
		err = e.KillContainer(t.Context(), v.pod(), kill)
	}
	f.Note("Return", entry{})
	e.AwaitHooks()
	got := ""
	if err != nil {
		got = err.Error()
	}
	diffLines(t, "error", v.Output.Error, got)
	checkSteps(t, f.Trace())
	checkRecords(t, f)
	compareKillTraces(t, v.Output.Trace, f, excluded)
}

func replayKillPod(t *testing.T, v *killVector, excluded exclusions, sandboxes bool) {
	f := v.runtime(t)
	e := newKubeletExecutor(f)
	request := plan.KillRequest{
		Pod: v.Pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination, Override: override(v.GracePeriodOverride),
	}
	var results []plan.Result
	var err error
	if sandboxes {
		results, err = e.KillPod(t.Context(), request)
	} else {
		results, _, err = e.killRunning(t.Context(), request)
	}
	f.Note("Return", entry{})
	e.AwaitHooks()
	checkSteps(t, f.Trace())
	checkRecords(t, f)
	diffLines(t, "results", recordings.KillResults(v.Output.Results), recordings.KillResults(vectorResults(results)))
	if sandboxes && v.Output.Failed != (err != nil) {
		t.Errorf("failed: want %v, got %v", v.Output.Failed, err)
	}
	compareKillTraces(t, v.Output.Trace, f, excluded)
	if v.Output.Stops != nil {
		compareStops(t, v, f)
	}
}

// compareKillTraces compares what was done, when, and in which order.
func compareKillTraces(t *testing.T, want []entry, f *fakeRuntime, excluded exclusions) {
	t.Helper()
	done := f.Trace()
	want, got := shortenNoIP(want, excluded), shortenNoIP(done, nil)
	diffLines(t, "trace", rendered(recordings.SortKills(want)), rendered(recordings.SortKills(got)))
	for i, e := range done {
		if e.Text("op") == "StopContainer" || e.Text("op") == "StopContainerEnd" {
			if slices.ContainsFunc(done[:i], func(e entry) bool { return e.Text("op") == "StopPodSandbox" }) {
				t.Errorf("a sandbox was stopped before %v", e)
			}
		}
	}
}

func compareStops(t *testing.T, v *killVector, f *fakeRuntime) {
	t.Helper()
	var stops []entry
	for _, e := range f.Trace() {
		if e.Text("op") == "StopContainer" {
			stops = append(stops, entry{"container": e["container"], "id": e["id"], "t": e["t"], "timeout": e["timeout"]})
		}
	}
	diffLines(t, "stops", rendered(recordings.SortKills(v.Output.Stops)), rendered(recordings.SortKills(stops)))
}
