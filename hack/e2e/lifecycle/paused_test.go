// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// pausedContainer starts a workload and pauses its container, and returns its ID.
func pausedContainer(t *testing.T, w *harness.Workload) string {
	t.Helper()
	_, id, _ := strings.Cut(w.AwaitReady().Status.ContainerStatuses[0].ContainerID, "://")
	if err := env.Stack.Node.Ctr(t.Context(), "task", "pause", id); err != nil {
		t.Fatal(err)
	}
	return id
}

// A container that something has paused cannot act on the stop signal: its kill ends when its
// time is over, whichever version of cgroups pauses it, and the record says why.
func TestPausedContainerIsKilled(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 3
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	pausedContainer(t, w)
	kill := w.DeleteAndCollect()[0]
	if !kill.Paused {
		t.Error("the record does not say that the container was paused")
	}
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Outcome: v1alpha1.KillOutcomeForced, Grace: grace(3, v1alpha1.GraceSourcePod),
	})
	if took := kill.FinishTime.Sub(kill.StopTime.Time); took < 3*time.Second || took > 3*time.Second+slack {
		t.Errorf("the kill took %s, want 3s", took)
	}
	if seen := w.Find("c", "signal"); len(seen) != 0 {
		t.Errorf("the container saw %q although it was paused to its end", seen)
	}
}

// The hook of a paused container cannot run, and costs it no time.
func TestHookOfAPausedContainer(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 3
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve]
  lifecycle: {preStop: {exec: {command: [/testprogram, sleep, 1s]}}}`)
	pausedContainer(t, w)
	kill := w.DeleteAndCollect()[0]
	if !kill.Paused || kill.Outcome != v1alpha1.KillOutcomeForced || kill.PreStop == nil || kill.PreStop.Outcome != v1alpha1.PreStopFailed {
		t.Errorf("record %+v, want Forced after a failed hook", kill)
	}
}

// One that is resumed in its time ends as any other.
func TestPausedContainerIsResumedDuringItsKill(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{terminationGracePeriodSeconds: 60, containers: [{name: c, image: "managedworkload.dev/testprogram:v1", args: [serve]}]}`)
	id := pausedContainer(t, w)
	w.Delete()
	w.Await("the record says that it is paused", func(nw *v1alpha1.NodeWorkload) bool {
		return len(nw.Status.Kills) > 0 && nw.Status.Kills[0].Paused
	})
	if err := env.Stack.Node.Ctr(t.Context(), "task", "resume", id); err != nil {
		t.Fatal(err)
	}
	if kill := w.CollectUntilGone()[0]; !kill.Paused || kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("record %+v, want Graceful", kill)
	}
}
