// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// syncVector is a line of syncpod-trace.
type syncVector struct {
	recordings.Sync[syncAnswer]
}

type syncAnswer struct {
	Actions              json.RawMessage     `json:"actions"`
	Trace                []entry             `json:"trace"`
	Results              []recordings.Result `json:"results"`
	SyncError            string              `json:"syncError"`
	BackoffAfter         map[string]float64  `json:"backOffAfter"`
	MinBackoffExpiration *string             `json:"minBackoffExpiration"`
}

func TestConformanceSyncPodTrace(t *testing.T) {
	eachVector(t, "syncpod-trace", func(t *testing.T, v *syncVector, excluded exclusions) {
		synctest.Test(t, func(t *testing.T) { replaySync(t, v, excluded) })
	})
}

func replaySync(t *testing.T, v *syncVector, excluded exclusions) {
	time.Sleep(time.Until(v.Now))
	in := v.planInput(t)
	f := v.runtime(in)
	actions := plan.Compute(in)
	v.sameActions(t, actions)
	e := newKubeletExecutor(f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if v.PodTerminationRequested && v.Runtime.RunPodSandboxError != "" {
		// The deletion arrives while the sandbox is created, and this fails.
		f.onRunSandbox = cancel
	}
	backoff := v.backoff()
	result := e.SyncPod(ctx, plan.SyncRequest{Pod: v.Pod, Observed: in.Observed, Actions: actions, Backoff: backoff})
	e.AwaitHooks()
	checkRecords(t, f)
	v.compare(t, f, actions, runningCount(in.Observed), &result, backoff, excluded)
}

// planInput decodes what the plan reads.
func (v *syncVector) planInput(t *testing.T) plan.Input {
	t.Helper()
	line, err := json.Marshal(map[string]any{
		"id": v.ID, "pod": v.Pod, "podStatus": v.PodStatus, "probes": v.Probes,
		"restartAllContainers": v.RestartAllContainers,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, in, err := vectors.DecodeRecorded(line)
	if err != nil {
		t.Fatal(err)
	}
	v.Pod = in.Pod
	return in
}

// runtime builds the fake runtime of a vector. Containers were created with the
// hook and the grace period that their pod has now.
func (v *syncVector) runtime(in plan.Input) *fakeRuntime {
	f := newFakeRuntime()
	f.Hooks, f.Images = v.Hooks, map[string]bool{}
	for _, image := range v.ImagesPresent {
		f.Images[image] = true
	}
	f.FailAs(&v.Runtime)
	for i := range in.Observed.Containers {
		c := &fakeContainer{ContainerStatus: in.Observed.Containers[i]}
		c.Recorded.TerminationGracePeriodSeconds = v.Pod.Spec.TerminationGracePeriodSeconds
		if spec := podspec.Container(v.Pod, c.Name); spec != nil {
			c.Recorded.PreStop, c.Recorded.Ports = plan.Kill{Container: spec}.PreStop(), spec.Ports
		}
		for _, script := range v.Runtime.Containers {
			if script.ID == c.ID {
				c.StopSeconds, c.StopError, c.RemoveError = script.StopSeconds, script.StopError, script.RemoveError
			}
		}
		f.Containers = append(f.Containers, c)
	}
	for _, status := range in.Observed.Sandboxes {
		s := &fakeSandbox{SandboxStatus: status}
		for _, script := range v.Runtime.Sandboxes {
			if script.ID == s.ID {
				s.StopError = script.StopError
			}
		}
		f.Sandboxes = append(f.Sandboxes, s)
	}
	return f
}

func (v *syncVector) backoff() map[string]*plan.Backoff {
	entries := map[string]*plan.Backoff{}
	for _, b := range v.Backoff {
		if podspec.Container(v.Pod, b.Container) == nil {
			continue // no container asks for it
		}
		entries[plan.BackoffKey(v.Pod, podspec.Container(v.Pod, b.Container))] = &plan.Backoff{
			Current: time.Duration(b.BackoffSeconds * float64(time.Second)), LastUpdate: b.LastUpdate,
		}
	}
	return entries
}

// sameActions compares the plan.
func (v *syncVector) sameActions(t *testing.T, actions plan.Actions) {
	t.Helper()
	var want map[string]any
	if err := json.Unmarshal(v.Output.Actions, &want); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(vectors.Encode(actions))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	diffLines(t, "actions", want, got)
}

// compare compares everything a sync did.
func (v *syncVector) compare(t *testing.T, f *fakeRuntime, actions plan.Actions, running int, result *plan.SyncOutcome,
	backoff map[string]*plan.Backoff, excluded exclusions) {
	t.Helper()
	wantTrace, gotTrace := canonicalTraces(v.Output.Trace, f.Trace(), actions, running, excluded)
	wantResults, gotResults := v.Output.Results, vectorResults(result.Results)
	diffLines(t, "trace", rendered(wantTrace), rendered(gotTrace))
	diffLines(t, "results", v.results(wantResults), v.results(gotResults))
	got := ""
	if result.SyncError != nil && !f.interruptedByDeletion(v) {
		got = result.SyncError.Error()
	}
	diffLines(t, "syncError", v.Output.SyncError, got)
	diffLines(t, "backOffAfter", v.Output.BackoffAfter, v.backoffSeconds(backoff))
	var expiration *string
	if !result.BackoffUntil.IsZero() {
		expiration = new(result.BackoffUntil.UTC().Format("2006-01-02T15:04:05.999999999Z"))
	}
	diffLines(t, "minBackoffExpiration", v.Output.MinBackoffExpiration, expiration)
}

// interruptedByDeletion reports whether the sync ended because its context did.
func (f *fakeRuntime) interruptedByDeletion(v *syncVector) bool {
	return f.onRunSandbox != nil && v.PodTerminationRequested
}

// results brings results into a comparable form.
func (v *syncVector) results(results []recordings.Result) []recordings.Result {
	results = recordings.KillResults(results)
	for i := range results {
		if before, _, found := strings.Cut(results[i].Message, noIP); found {
			results[i].Message = before + noIP
		}
	}
	return results
}

// backoffSeconds are the entries of init and main containers; the vectors hold no
// others.
func (v *syncVector) backoffSeconds(entries map[string]*plan.Backoff) map[string]float64 {
	out := map[string]float64{}
	add := func(c *corev1.Container) {
		if entry := entries[plan.BackoffKey(v.Pod, c)]; entry != nil {
			out[c.Name] = entry.Current.Seconds()
		}
	}
	for i := range v.Pod.Spec.InitContainers {
		add(&v.Pod.Spec.InitContainers[i])
	}
	for i := range v.Pod.Spec.Containers {
		add(&v.Pod.Spec.Containers[i])
	}
	return out
}

// canonicalTraces brings the traces of a sync into the order that the vectors
// define. got has times, which say what was done at once; want has none.
func canonicalTraces(want, got []entry, actions plan.Actions, running int, excluded exclusions) ([]entry, []entry) {
	stopsSandbox := slices.ContainsFunc(got, func(e entry) bool { return e.Text("op") == "StopPodSandbox" })
	got = slices.Clone(got)
	if actions.KillPod {
		kills := recordings.EndOfKills(got, running)
		got = append(recordings.SortKills(got[:kills]), got[kills:]...)
	}
	for i := range got {
		got[i] = maps.Clone(got[i])
		delete(got[i], "t")
	}
	want, got = shortenNoIP(want, excluded), shortenNoIP(got, nil)
	if !actions.KillPod {
		kills := len(actions.ContainersToKill)
		want, got = recordings.GroupKills(want, kills), recordings.GroupKills(got, kills)
	}
	// Without a sandbox between them, the vectors sort the removals with the
	// parallel kills: by ID too.
	byID := actions.KillPod && !stopsSandbox
	return recordings.SortRemovals(want, byID), recordings.SortRemovals(got, byID)
}

func runningCount(observed *plan.PodStatus) (n int) {
	for i := range observed.Containers {
		if observed.Containers[i].State == plan.ContainerRunning {
			n++
		}
	}
	return n
}
