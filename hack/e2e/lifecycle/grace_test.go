// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
)

// slack is what a step may take on a busy machine beyond its own time.
const slack = 5 * time.Second

// between checks the time from one entry to the next.
func between(t *testing.T, what string, from, to harness.Entry, least time.Duration) {
	t.Helper()
	if took := to.Time.Sub(from.Time); took < least-100*time.Millisecond || took > least+slack {
		t.Errorf("%s took %s, want about %s", what, took, least)
	}
}

func TestGraceForced(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 3
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	kill := w.DeleteAndCollect()[0]
	checkKill(t, kill, v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Outcome: v1alpha1.KillOutcomeForced, Grace: grace(3, v1alpha1.GraceSourcePod),
	})
	if ptr.Deref(kill.ExitCode, 0) != 137 {
		t.Errorf("exit code %v, want 137", kill.ExitCode)
	}
	if took := kill.FinishTime.Sub(kill.StopTime.Time); took < 3*time.Second || took > 3*time.Second+slack {
		t.Errorf("the kill was forced after %s, want 3s", took)
	}
	if len(w.Find("c", "signal SIGTERM")) != 1 {
		t.Errorf("the container saw %q, want one SIGTERM", harness.Texts(w.Journal("c")))
	}
}

// An exit code of 137 of its own is no forced kill.
func TestGraceExitCode137IsNotForced(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{containers: [{name: c, image: "managedworkload.dev/testprogram:v1", args: [serve, --term-exit-code=137]}]}`)
	w.AwaitReady()
	if kill := w.DeleteAndCollect()[0]; kill.Outcome != v1alpha1.KillOutcomeGraceful || ptr.Deref(kill.ExitCode, 0) != 137 {
		t.Errorf("outcome %s with exit code %v, want Graceful with 137", kill.Outcome, kill.ExitCode)
	}
}

func TestGraceFromProbe(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 30
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --on-term=ignore, --fail-file=/dir/fail]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 2}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	w.AwaitReady()
	touch(t, w, "fail")
	checkKill(t, w.AwaitTrigger("c", v1alpha1.TriggerLivenessProbe), v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerLivenessProbe, Message: "Container c failed liveness probe, will be restarted",
		Outcome: v1alpha1.KillOutcomeForced, Grace: grace(2, v1alpha1.GraceSourceProbe),
	})
}

func TestGraceFromDeletion(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{containers: [{name: c, image: "managedworkload.dev/testprogram:v1", args: [serve, --on-term=ignore]}]}`)
	w.AwaitReady()
	annotateDeletionGrace(w, "3")
	checkKill(t, w.DeleteAndCollect()[0], v1alpha1.KillRecord{
		Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Outcome: v1alpha1.KillOutcomeForced, Grace: grace(3, v1alpha1.GraceSourceDeletion),
	})
}

// A deletion with no grace at all: at least 1 s for the hook, and still 2 s to
// stop.
func TestGraceZeroDeletion(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `{containers: [{name: c, image: "managedworkload.dev/testprogram:v1", args: [serve, --on-term=ignore]}]}`)
	w.AwaitReady()
	annotateDeletionGrace(w, "0")
	kill := w.DeleteAndCollect()[0]
	if kill.Grace.Seconds != 1 || kill.Grace.Source != v1alpha1.GraceSourceDeletion || ptr.Deref(kill.StopTimeoutSeconds, 0) != 2 {
		t.Errorf("grace %+v, stop timeout %v: want 1 s of a deletion, stopped with 2", kill.Grace, kill.StopTimeoutSeconds)
	}
}

func annotateDeletionGrace(w *harness.Workload, seconds string) {
	w.ChangeObject(func(mw *v1alpha1.ManagedWorkload) {
		if mw.Annotations == nil {
			mw.Annotations = map[string]string{}
		}
		mw.Annotations[v1alpha1.AnnotationDeletionGracePeriodSeconds] = seconds
	})
}

// A hook longer than its grace is cancelled when its time is over, and the
// container still gets 2 s.
func TestGraceHookOverruns(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 3
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --log-file=/dir/c]
  lifecycle: {preStop: {exec: {command: [/testprogram, seq, append, /dir/c, hook, ",", sleep, 60s, ",", append, /dir/c, hook-end]}}}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	w.AwaitReady()
	kill := w.DeleteAndCollect()[0]
	if kill.PreStop == nil || kill.PreStop.Outcome != v1alpha1.PreStopTimedOut || kill.PreStop.Seconds != 3 {
		t.Errorf("preStop %+v, want TimedOut after 3 s", kill.PreStop)
	}
	if ptr.Deref(kill.StopTimeoutSeconds, 0) != 2 || kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("stop timeout %v, outcome %s", kill.StopTimeoutSeconds, kill.Outcome)
	}
	// On a busy machine the hook's program runs some time after its hook has begun.
	between(t, "kill to SIGTERM", harness.Entry{Time: kill.StartTime.Time}, w.Find("c", "signal SIGTERM")[0], 3*time.Second)
	if len(w.Find("c", "hook-end")) != 0 {
		t.Error("the hook ran to its end")
	}
	w.AwaitEvent("FailedPreStopHook", "PreStopHook not completed in grace period, cancelled")
}

// The grace period is shortened in each of the three phases of a kill.
func TestGraceShortened(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		container string
		phase     v1alpha1.KillPhase
		template  string
	}{
		"during preStop": {"c", v1alpha1.KillPhasePreStop, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore], lifecycle: {preStop: {exec: {command: [/testprogram, sleep, 100s]}}}}`},
		"waiting for its turn": {"side", v1alpha1.KillPhaseWaitingForTurn, `
initContainers:
- {name: side, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve, --on-term=ignore]}
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore]}`},
		"while stopping": {"c", v1alpha1.KillPhaseStopping, `
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=ignore]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := env.Apply(t, "terminationGracePeriodSeconds: 100"+tc.template)
			w.AwaitReady()
			w.Delete()
			w.AwaitPhase(tc.container, tc.phase)
			annotateDeletionGrace(w, "3")
			start := time.Now()
			kills := w.CollectUntilGone()
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %s to end after the grace period was shortened to 3 s", took)
			}
			for _, kill := range kills {
				if kill.Outcome != v1alpha1.KillOutcomeForced || kill.Grace.Source != v1alpha1.GraceSourceDeletion || ptr.Deref(kill.Grace.ShortenedFromSeconds, 0) != 100 {
					t.Errorf("kill of %s: outcome %s, grace %+v; want Forced, shortened from 100 s by the deletion", kill.Container, kill.Outcome, kill.Grace)
				}
			}
		})
	}
}

// A deletion shortens the kill of an ordinary sync that is under way.
func TestGraceShortenedByDeletion(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 3
containers:
- name: c
  image: managedworkload.dev/testprogram:v1
  args: [serve, --on-term=ignore]
  livenessProbe: {exec: {command: [/testprogram, check-no-file, /dir/fail]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 100}
  volumeMounts: [{name: dir, mountPath: /dir}]`+dirVolume)
	w.AwaitReady()
	touch(t, w, "fail")
	w.AwaitPhase("c", v1alpha1.KillPhaseStopping)
	start := time.Now()
	w.DeleteAndCollect()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the deletion took %s; it waited for the probe's 100 s", took)
	}
}

func TestGraceSidecarsEndLast(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
terminationGracePeriodSeconds: 20
initContainers:
- {name: s1, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve, --log-file=/dir/s1], volumeMounts: [{name: dir, mountPath: /dir}],
  lifecycle: {preStop: {exec: {command: [/testprogram, append, /dir/s1, preStop]}}}}
- {name: s2, image: managedworkload.dev/testprogram:v1, restartPolicy: Always, args: [serve, --on-term=delay:1s, --log-file=/dir/s2], volumeMounts: [{name: dir, mountPath: /dir}]}
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --on-term=delay:5s, --log-file=/dir/c], volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	kills := w.DeleteAndCollect()
	if len(kills) != 3 {
		t.Fatalf("%d kills, want 3", len(kills))
	}
	last, s2 := w.Find("c", "stopped")[0], w.Find("s2", "signal SIGTERM")[0]
	if s2.Time.Before(last.Time) {
		t.Error("the last sidecar got SIGTERM before the main container had left")
	}
	if w.Find("s1", "signal SIGTERM")[0].Time.Before(w.Find("s2", "stopped")[0].Time) {
		t.Error("the first sidecar got SIGTERM before the last one had left")
	}
	if hook := w.Find("s1", "preStop")[0]; hook.Time.After(last.Time) {
		t.Errorf("the sidecar's preStop hook ran %s after the main container had left; hooks run at once", hook.Time.Sub(last.Time))
	}
}

func TestGraceStopSignal(t *testing.T) {
	t.Parallel()
	w := env.Apply(t, `
os: {name: linux}
containers:
- {name: c, image: managedworkload.dev/testprogram:v1, args: [serve, --stop-signals=USR1, --log-file=/dir/c], lifecycle: {stopSignal: SIGUSR1}, volumeMounts: [{name: dir, mountPath: /dir}]}`+dirVolume)
	w.AwaitReady()
	kill := w.DeleteAndCollect()[0]
	if kill.StopSignal != "SIGUSR1" || kill.Outcome != v1alpha1.KillOutcomeGraceful {
		t.Errorf("stop signal %q, outcome %s", kill.StopSignal, kill.Outcome)
	}
	if len(w.Find("c", "signal SIGUSR1")) != 1 || len(w.Find("c", "signal SIGTERM")) != 0 {
		t.Errorf("the container saw %q", harness.Texts(w.Journal("c")))
	}
}
