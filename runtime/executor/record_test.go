// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func recorded(c *fakeContainer) {
	grace := int64(7)
	c.Recorded.TerminationGracePeriodSeconds = &grace
	c.Recorded.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prestop", "old"}}}
}

func TestPodKillGoesByTheRecordWhereTheTemplateChanged(t *testing.T) {
	pod := testPod(30, withPreStopExec)
	tests := map[string]struct {
		edit        func(c *fakeContainer)
		name        string
		trigger     v1alpha1.KillTrigger
		wantHook    string
		wantTimeout float64
	}{
		"same definition": {
			name: "app", edit: func(c *fakeContainer) { recorded(c); c.Hash = plan.HashContainer(&pod.Spec.Containers[0]) },
			wantHook: "app", wantTimeout: 30,
		},
		"definition not recorded": {name: "app", edit: recorded, wantHook: "app", wantTimeout: 30},
		"other definition": {
			name: "app", edit: func(c *fakeContainer) { recorded(c); c.Hash = "v2:other" }, wantHook: "old", wantTimeout: 7,
		},
		"hash of another version": {
			name: "app", edit: func(c *fakeContainer) { recorded(c); c.Hash = "v0:other" }, wantHook: "app", wantTimeout: 30,
		},
		"not in the template": {name: "gone", edit: recorded, wantHook: "old", wantTimeout: 7},
		"an orphan's pod is made of records": {
			name: "app", edit: func(c *fakeContainer) { recorded(c); c.Hash = "v2:other" },
			trigger: v1alpha1.TriggerOrphan, wantHook: "app", wantTimeout: 30,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running(tc.name, tc.edit)
				e := newFakeExecutor(f)
				if _, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: tc.trigger}); err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff([]stopCall{{tc.name, 0, tc.wantTimeout}}, f.stopCalls()); diff != "" {
					t.Error(diff)
				}
				if execs := f.ops("ExecSync"); len(execs) != 1 || execs[0]["cmd"].([]any)[1] != tc.wantHook {
					t.Errorf("hooks: %v, want %s", execs, tc.wantHook)
				}
			})
		})
	}
}

// A probe is taken over without a restart, and its grace period with it: also
// where the container is killed by its record.
func TestKillByRecordHasTheProbesGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := testPod(30, withPreStopExec)
		grace := int64(4)
		pod.Spec.Containers[0].StartupProbe = &corev1.Probe{TerminationGracePeriodSeconds: &grace}
		f := newFakeRuntime()
		f.running("app", recorded).Hash = "v2:another"
		err := newFakeExecutor(f).KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerStartupProbe}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]stopCall{{"app", 0, 4}}, f.stopCalls()); diff != "" {
			t.Error(diff)
		}
	})
}

// The name in the record is the container's own: that is all that is sure of it.
func TestKillByRecordHasTheRecordedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", recorded).State = plan.ContainerUnknown
		err := newFakeExecutor(f).CollectGarbage(t.Context(), GarbageOptions{
			List: func(context.Context) (Garbage, error) {
				return Garbage{Containers: []GarbageContainer{{ID: "app-id", Name: "other", PodUID: testUID, State: plan.ContainerUnknown}}}, nil
			},
			ContentRemoved: func(types.UID) bool { return true },
			AllKnown:       true,
		})
		if err != nil {
			t.Fatal(err)
		}
		killing := f.ops("Event")[0]
		if killing.Text("container") != "app" || killing.Text("message") != "Container is in unknown state, try killing it before removal" {
			t.Errorf("event of the kill: %v", killing)
		}
	})
}

func TestRemovedContainerIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("gone", recorded)
		e := newFakeExecutor(f)
		result := e.SyncPod(t.Context(), plan.SyncRequest{Pod: testPod(30, nil), Observed: f.observed(), Actions: plan.Actions{
			SandboxID: "sb",
			ContainersToKill: []plan.Kill{plan.DecideKill(testPod(30, nil), &f.observed().Containers[0],
				plan.Kill{Trigger: v1alpha1.TriggerContainerRemoved, Removed: true}, nil, plan.AllDifferences())},
		}})
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if len(f.stopCalls()) != 1 || len(f.ops("RemoveContainer")) != 1 {
			t.Errorf("stops %v, removals %v", f.stopCalls(), f.ops("RemoveContainer"))
		}
	})
}

// Nothing is started after a kill that failed. The kubelet does not begin another one either.
func TestFailedKillEndsTheSync(t *testing.T) {
	for name, tc := range map[string]struct {
		make  func(*fakeRuntime) *Executor
		stops int
	}{"here": {newFakeExecutor, 2}, "the kubelet": {newKubeletExecutor, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", func(c *fakeContainer) { c.StopError = "Unknown" })
				e := tc.make(f)
				in := startApp(testPod(30, nil), f)
				in.Actions.ContainersToKill = []plan.Kill{
					killApp(testPod(30, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe}),
					killApp(testPod(30, nil), f, plan.Kill{Trigger: v1alpha1.TriggerUnknownState}),
				}
				result := e.SyncPod(t.Context(), in)
				if len(f.stopCalls()) != tc.stops || len(f.ops("CreateContainer")) != 0 || result.Err == nil {
					t.Errorf("stops %v, creations %v, error %v", f.stopCalls(), f.ops("CreateContainer"), result.Err)
				}
			})
		})
	}
}

// The kills of a sync begin at once, but that a sidecar waits for its turn as at a termination. The
// kubelet's follow one another.
func TestKillsOfASync(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*fakeRuntime) *Executor
		want []stopCall
	}{
		"here":        {newFakeExecutor, []stopCall{{"app", 0, 30}, {"web", 0, 30}, {"side", 5, 25}}},
		"the kubelet": {newKubeletExecutor, []stopCall{{"side", 0, 30}, {"app", 3, 30}, {"web", 8, 30}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				pod := testPod(30, func(pod *corev1.Pod) {
					withSidecar(pod)
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "web", Image: "img:1"})
				})
				for c, takes := range map[string]float64{"side": 3, "app": 5, "web": 4} {
					f.running(c, func(c *fakeContainer) { c.StopSeconds = takes })
				}
				e := tc.make(f)
				in := plan.SyncRequest{Pod: pod, Observed: f.observed(), Backoff: map[string]*plan.Backoff{}, Actions: plan.Actions{SandboxID: "sb"}}
				for _, c := range []string{"side", "app", "web"} {
					why := plan.Kill{Trigger: v1alpha1.TriggerRestartRequested}
					k := plan.DecideKill(pod, &plan.ContainerStatus{ID: c + "-id", Name: c}, why, nil, plan.AllDifferences())
					if c == "side" && e.differences.KillsAtOnce {
						k.WaitsFor = []string{"app", "web"} // as the plan has it
					}
					in.Actions.ContainersToKill = append(in.Actions.ContainersToKill, k)
				}
				if out := e.SyncPod(t.Context(), in); out.Err != nil {
					t.Fatal(out.Err)
				}
				wantStops(t, f, tc.want)
			})
		})
	}
}

// wantStops looks at the calls of StopContainer, in the order of their times and names.
func wantStops(t *testing.T, f *fakeRuntime, want []stopCall) {
	t.Helper()
	got := f.stopCalls()
	slices.SortStableFunc(got, func(a, b stopCall) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Container, b.Container))
	})
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("StopContainer (-want +got):\n%s", diff)
	}
}

// Containers that are removed because the pod starts over are killed at once, and removed in the order of the kubelet,
// which kills them one after another.
func TestKillsBeforeAReset(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*fakeRuntime) *Executor
		want []stopCall
	}{
		"here":        {newFakeExecutor, []stopCall{{"app", 0, 2}, {"web", 0, 2}}},
		"the kubelet": {newKubeletExecutor, []stopCall{{"app", 0, 2}, {"web", 2, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				pod := testPod(30, func(pod *corev1.Pod) {
					pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "web", Image: "img:1"})
				})
				e := tc.make(f)
				in := plan.SyncRequest{Pod: pod, Backoff: map[string]*plan.Backoff{}, Actions: plan.Actions{SandboxID: "sb"}}
				for _, c := range []string{"app", "web"} {
					f.running(c, func(c *fakeContainer) { c.StopSeconds = 2 })
					why := plan.Kill{Trigger: v1alpha1.TriggerRestartAllContainers}
					k := plan.DecideKill(pod, &plan.ContainerStatus{ID: c + "-id", Name: c}, why, &plan.Grace{Source: v1alpha1.GraceSourceOverride}, plan.AllDifferences())
					in.Actions.ContainersToReset = append(in.Actions.ContainersToReset, plan.Reset{ID: c + "-id", Name: c, Kill: &k})
				}
				in.Observed = f.observed()
				if out := e.SyncPod(t.Context(), in); out.Err != nil {
					t.Fatal(out.Err)
				}
				wantStops(t, f, tc.want)
				var removed []string
				for _, op := range f.ops("RemoveContainer") {
					removed = append(removed, op.Text("container"))
				}
				if diff := gocmp.Diff([]string{"app", "web"}, removed); diff != "" {
					t.Errorf("removed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOverrideSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", nil)
		e := newFakeExecutor(f)
		_, err := e.KillPod(t.Context(), plan.KillRequest{Pod: testPod(30, nil), Observed: f.observed(),
			Trigger: v1alpha1.TriggerTermination, Override: &plan.Grace{Seconds: 9, Source: v1alpha1.GraceSourceDeletion},
			Message: "deleted", RequestedBy: "kubectl",
		})
		if err != nil {
			t.Fatal(err)
		}
		rec := f.lastRecords()[0]
		if rec.Grace.Seconds != 9 || rec.Grace.Source != v1alpha1.GraceSourceDeletion || rec.Message != "deleted" || rec.RequestedBy != "kubectl" {
			t.Errorf("record: %+v", rec)
		}
		if msg := f.ops("Event")[0].Text("message"); msg != "Stopping container app" {
			t.Errorf("event %q", msg)
		}
	})
}

func TestRemoveDead(t *testing.T) {
	at := func(id, name string, state plan.ContainerState, age time.Duration) plan.ContainerStatus {
		return plan.ContainerStatus{ID: id, Name: name, State: state, CreatedAt: time.Unix(1000, 0).Add(-age)}
	}
	observed := &plan.PodStatus{Containers: []plan.ContainerStatus{
		at("a4", "a", plan.ContainerRunning, 0), at("a2", "a", plan.ContainerExited, 2*time.Second),
		at("a3", "a", plan.ContainerExited, time.Second), at("a1", "a", plan.ContainerExited, 3*time.Second),
		at("b1", "b", plan.ContainerExited, time.Second), at("a0", "a", plan.ContainerUnknown, 4*time.Second),
	}}
	for name, tc := range map[string]struct {
		exited string
		want   []string
	}{
		"older ones of the name": {exited: "a3", want: []string{"a2", "a1"}},
		"the only one stays":     {exited: "b1"},
		"an unknown ID":          {exited: "zz"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, tooManyDead(observed, tc.exited)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A container's logs go before it does; what another program has put beside them stays, and keeps no
// container from being removed.
func TestLogsGoBeforeTheContainer(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "0.log.d", "a folder in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.log", "0.log.20260101-000000", "0.log.20260101-000001.gz", "1.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := newFakeRuntime()
	f.running("app", func(c *fakeContainer) { c.State, c.LogPath = plan.ContainerExited, filepath.Join(dir, "0.log") })
	f.running("old", func(c *fakeContainer) { c.State, c.LogPath = plan.ContainerExited, filepath.Join(dir, "1.log") })
	e := newFakeExecutor(f)
	for _, id := range []string{"app-id", "old-id"} {
		if err := e.removeContainer(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "0.log.d" {
		t.Errorf("left: %v, %v", left, err)
	}
	if len(f.Containers) != 0 {
		t.Errorf("containers left: %v", f.Containers)
	}
}
