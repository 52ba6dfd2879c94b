// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// A sidecar waits for a main container whose kill another sync began before, as for one of its own sync: as
// long as that kill goes on, and no longer than its own grace period.
func TestSidecarWaitsForAKillOfAnEarlierSync(t *testing.T) {
	for name, tc := range map[string]struct {
		app     func(*fakeContainer)
		shorten bool // to 4 s, 5 s after the first kill began
		want    []stopCall
	}{
		"until the main container has ended":              {func(c *fakeContainer) { c.StopSeconds = 8 }, false, []stopCall{{"app", 0, 60}, {"side", 8, 25}}},
		"within its own grace period":                     {ignoresTerm, false, []stopCall{{"app", 0, 60}, {"side", 33, 2}}},
		"within the time that a deletion leaves":          {ignoresTerm, true, []stopCall{{"app", 0, 60}, {"app", 5, 4}, {"side", 9, 2}}},
		"not for a kill that has ended":                   {nil, false, []stopCall{{"app", 0, 60}, {"side", 3, 30}}},
		"not for a kill that has failed":                  {func(c *fakeContainer) { c.StopError = "Unavailable" }, false, []stopCall{{"app", 0, 60}, {"side", 3, 30}}},
		"within its grace period for one that fails late": {func(c *fakeContainer) { c.StopError, c.IgnoresTerm = "Unavailable", true }, false, []stopCall{{"app", 0, 60}, {"side", 33, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.app)
				f.running("side", nil)
				e, pod := newFakeExecutor(f), testPod(30, withSidecar)
				begin := func(k plan.Kill, seconds int64) {
					k = plan.DecideKill(pod, &plan.ContainerStatus{ID: k.Name + "-id", Name: k.Name}, k, nil, plan.AllDifferences())
					k.Grace.Seconds = seconds
					k.WaitsFor = map[string][]string{"side": {"app"}}[k.Name] // as the plan has it
					e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: f.observed(), Actions: plan.Actions{
						SandboxID: "sb", ContainersToKill: []plan.Kill{k},
					}})
				}
				var syncs sync.WaitGroup
				syncs.Go(func() { begin(plan.Kill{Name: "app", Trigger: v1alpha1.TriggerLivenessProbe}, 60) })
				time.Sleep(3 * time.Second)
				syncs.Go(func() { begin(plan.Kill{Name: "side", Trigger: v1alpha1.TriggerDefinitionChanged}, 30) })
				time.Sleep(2 * time.Second)
				if tc.shorten {
					e.Shorten(testUID, 4)
				}
				syncs.Wait()
				if diff := gocmp.Diff(tc.want, f.stopCalls()); diff != "" {
					t.Errorf("StopContainer (-want +got):\n%s", diff)
				}
				if len(e.turns) > 0 {
					t.Errorf("turns of kills that are over are kept: %v", e.turns)
				}
			})
		})
	}
}

// A sidecar whose wait was cut off waits, in the next process too, no longer than the kill of the main
// container takes, which had been asked to stop.
func TestResumedSidecarStopsAfterItsMainContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopSeconds = 5 })
		f.running("side", nil)
		app := stopping(cutRecord(10*time.Second, v1alpha1.KillPhaseStopping, 60), 10*time.Second, 60)
		side := cutRecord(10*time.Second, v1alpha1.KillPhaseWaitingForTurn, 60)
		side.ID, side.Container, side.ContainerID = "k2", "side", "side-id"
		app.Trigger, side.Trigger = v1alpha1.TriggerRestartRequested, v1alpha1.TriggerRestartRequested
		open := []plan.KillProgress{{Record: app}, {Record: side}}
		if err := newFakeExecutor(f).Resume(t.Context(), testPod(60, withSidecar), open); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 0, 50}, {"side", 5, 45}}, f.stopCalls()); diff != "" {
			t.Errorf("StopContainer (-want +got):\n%s", diff)
		}
	})
}

// A kill that fails while a sidecar waits for its container is tried again meanwhile, and not when the
// sidecar has waited out its time; by a decision that a shortening made out of date it is not.
func TestFailedKillIsRetriedWhileASidecarWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet bool
		until   time.Duration                 // the runtime refuses to stop app
		during  func(*Executor, *fakeRuntime) // after half a second
		want    []stopCall
	}{
		"a runtime that is away for a moment": {until: 2 * time.Second, want: []stopCall{{"app", 0, 30}, {"app", 1, 30}, {"app", 3, 30}, {"side", 3, 27}}},
		"a runtime that is away":              {until: time.Hour, want: []stopCall{{"app", 0, 30}, {"app", 1, 30}, {"app", 3, 30}, {"app", 7, 30}, {"app", 15, 30}, {"app", 25, 30}, {"side", 30, 2}}},
		"the kubelet":                         {kubelet: true, until: 2 * time.Second, want: []stopCall{{"app", 0, 30}, {"side", 30, 2}}},
		"a look, with as much time as before": {until: 2 * time.Second, during: func(e *Executor, _ *fakeRuntime) { e.Shorten(testUID, 30) }, want: []stopCall{{"app", 0, 30}, {"app", 1, 30}, {"app", 3, 30}, {"side", 3, 27}}},
		"another template is wanted":          {until: 2 * time.Second, during: func(e *Executor, _ *fakeRuntime) { e.Outdate(testUID) }, want: []stopCall{{"app", 0, 30}, {"side", 30, 2}}},
		"it exits meanwhile":                  {until: time.Hour, during: func(_ *Executor, f *fakeRuntime) { f.Exit(f.Find("app-id"), 0) }, want: []stopCall{{"app", 0, 30}, {"side", 1, 29}}},
		"a deletion with less time":           {until: 2 * time.Second, during: func(e *Executor, _ *fakeRuntime) { e.Shorten(testUID, 4) }, want: []stopCall{{"app", 0, 30}, {"side", 4.5, 2}}},
	} {
		pod := testPod(30, withSidecar)
		for way, kill := range map[string]func(*testing.T, *Executor, *fakeRuntime, plan.Differences) error{
			"of a pod": func(t *testing.T, e *Executor, f *fakeRuntime, _ plan.Differences) error {
				t.Helper()
				_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination})
				return err
			},
			"of a sync": func(t *testing.T, e *Executor, f *fakeRuntime, d plan.Differences) error {
				t.Helper()
				d.KillsAtOnce = true // the kubelet has no order of the kills of a sync
				e.differences = d
				var kills []plan.Kill
				for _, name := range []string{"side", "app"} {
					k := plan.DecideKill(pod, &plan.ContainerStatus{ID: name + "-id", Name: name}, plan.Kill{Name: name, Trigger: v1alpha1.TriggerRestartRequested}, nil, plan.AllDifferences())
					k.WaitsFor = map[string][]string{"side": {"app"}}[name]
					kills = append(kills, k)
				}
				return e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: f.observed(), Actions: plan.Actions{SandboxID: "sb", ContainersToKill: kills}}).Err
			},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeRuntime()
					f.running("app", nil)
					f.running("side", nil)
					away := time.Now().Add(tc.until)
					f.stopError = func(id string) error {
						if id == "app-id" && time.Now().Before(away) {
							return errorOf("Unavailable")
						}
						return nil
					}
					differences := plan.AllDifferences()
					differences.RetryInTurn = !tc.kubelet
					e := newExecutorWith(f, differences)
					if tc.during != nil {
						time.AfterFunc(500*time.Millisecond, func() { tc.during(e, f) })
					}
					if err := kill(t, e, f, differences); (err == nil) != (tc.want[len(tc.want)-1].Timeout > 2) {
						t.Errorf("error %v", err)
					}
					if diff := gocmp.Diff(tc.want, f.stopCalls()); diff != "" {
						t.Errorf("StopContainer (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}
