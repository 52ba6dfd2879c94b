// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

func microTime(t time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: t} }

func record(id, container string, trigger v1alpha1.KillTrigger, phase v1alpha1.KillPhase, start time.Time) v1alpha1.KillRecord {
	return v1alpha1.KillRecord{ID: id, Container: container, Trigger: trigger, Phase: phase, StartTime: *microTime(start)}
}

func ids(kills []v1alpha1.KillRecord) []string {
	list := make([]string, 0, len(kills))
	for i := range kills {
		list = append(list, kills[i].ID)
	}
	return list
}

func TestAddKill(t *testing.T) {
	const done, stopping = v1alpha1.KillPhaseDone, v1alpha1.KillPhaseStopping
	liveness := func(n int, phase v1alpha1.KillPhase) v1alpha1.KillRecord {
		return record(fmt.Sprint("l", n), "c", v1alpha1.TriggerLivenessProbe, phase, t0.Add(time.Duration(n)*time.Minute))
	}
	crashLoop := func(n int) []v1alpha1.KillRecord {
		var kills []v1alpha1.KillRecord
		for i := range n {
			kills = AddKill(kills, liveness(i, done))
		}
		return kills
	}
	old := record("definition", "c", v1alpha1.TriggerDefinitionChanged, done, t0.Add(-time.Hour))
	numbered := func(r v1alpha1.KillRecord, sequence int64) v1alpha1.KillRecord {
		r.Sequence = sequence
		return r
	}
	tests := map[string]struct {
		kills []v1alpha1.KillRecord
		add   v1alpha1.KillRecord
		want  []string
	}{
		"the first":                 {add: liveness(0, stopping), want: []string{"l0"}},
		"newest first":              {kills: crashLoop(2), add: liveness(2, stopping), want: []string{"l2", "l1", "l0"}},
		"whatever the clock says":   {kills: crashLoop(2), add: old, want: []string{"definition", "l1", "l0"}},
		"late ones in their place":  {kills: crashLoop(2), add: numbered(old, 1), want: []string{"l1", "l0", "definition"}},
		"same ID takes its place":   {kills: crashLoop(3), add: liveness(1, done), want: []string{"l2", "l1", "l0"}},
		"a crash loop is bounded":   {kills: append(crashLoop(10), old), add: liveness(10, done), want: []string{"l10", "l9", "l8", "l7", "l6", "l5", "l4", "l3", "l2", "definition"}},
		"another container's":       {kills: crashLoop(10), add: record("d", "d", v1alpha1.TriggerLivenessProbe, done, t0), want: []string{"d", "l9", "l8", "l7", "l6", "l5", "l4", "l3", "l2", "l1"}},
		"one under way comes first": {kills: append(crashLoop(10), liveness(-1, stopping)), add: liveness(10, done), want: []string{"l-1", "l10", "l9", "l8", "l7", "l6", "l5", "l4", "l3", "l2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := ids(tc.kills)
			if diff := cmp.Diff(tc.want, ids(AddKill(tc.kills, tc.add))); diff != "" {
				t.Errorf("Kills (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, ids(tc.kills)); diff != "" {
				t.Errorf("The given list was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAddKillReplaces(t *testing.T) {
	first := record("k", "c", v1alpha1.TriggerTermination, v1alpha1.KillPhaseStopping, t0)
	ended := first
	ended.Phase = v1alpha1.KillPhaseDone
	ended.Outcome = v1alpha1.KillOutcomeAlreadyStopped
	kills := AddKill(AddKill(nil, first), ended)
	want := ended
	want.Summary, want.Sequence = "terminated; had already exited", 1
	if diff := cmp.Diff([]v1alpha1.KillRecord{want}, kills); diff != "" {
		t.Errorf("Kills (-want +got):\n%s", diff)
	}
}

// A clock that was set back costs no record: the newest kills are there.
func TestAddKillAfterTheClockWasSetBack(t *testing.T) {
	var kills []v1alpha1.KillRecord
	for i := range 12 {
		kills = AddKill(kills, record(fmt.Sprint(i), "c", v1alpha1.TriggerLivenessProbe, v1alpha1.KillPhaseDone, t0.Add(time.Duration(i)*time.Minute)))
	}
	var want []string
	for i := range 10 {
		id, at := fmt.Sprint("back", i), t0.Add(time.Duration(i)*5*time.Minute-time.Hour)
		kills = AddKill(kills, record(id, "c", v1alpha1.TriggerLivenessProbe, v1alpha1.KillPhaseStopping, at))
		kills = AddKill(kills, record(id, "c", v1alpha1.TriggerLivenessProbe, v1alpha1.KillPhaseDone, at))
		want = append([]string{id}, want...)
	}
	if diff := cmp.Diff(want, ids(kills)); diff != "" {
		t.Errorf("Kills (-want +got):\n%s", diff)
	}
}

func TestAddKillBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kills []v1alpha1.KillRecord
		underWay, newest := map[string]bool{}, map[string]string{}
		triggers := []v1alpha1.KillTrigger{v1alpha1.TriggerLivenessProbe, v1alpha1.TriggerTermination, v1alpha1.TriggerOrphan}
		for i := range rapid.IntRange(1, 250).Draw(t, "kills") {
			phase := v1alpha1.KillPhaseDone
			if rapid.IntRange(0, 9).Draw(t, "phase") == 0 {
				phase = v1alpha1.KillPhasePreStop
			}
			id := fmt.Sprint(i)
			container := fmt.Sprint("c", rapid.IntRange(0, 20).Draw(t, "container"))
			trigger := rapid.SampledFrom(triggers).Draw(t, "trigger")
			underWay[id] = phase != v1alpha1.KillPhaseDone
			newest[container], newest[string(trigger)] = id, id
			kills = AddKill(kills, record(id, container, trigger, phase, t0.Add(time.Duration(i)*time.Second)))
		}
		finished := map[string]bool{}
		seen := map[string]bool{}
		for _, k := range kills {
			if seen[k.ID] {
				t.Fatalf("Kill %s is there twice", k.ID)
			}
			seen[k.ID] = true
			if !underWay[k.ID] {
				finished[k.Container] = true
			}
		}
		under := 0
		for id, is := range underWay {
			if is {
				under++
				if !seen[id] {
					t.Fatalf("Kill %s is under way and was dropped", id)
				}
			}
		}
		if len(kills) > max(10, under+len(finished)+len(triggers)) {
			t.Fatalf("There are %d kills, %d of them under way", len(kills), under)
		}
		for key, id := range newest {
			if !seen[id] {
				t.Fatalf("The newest kill of %s was dropped", key)
			}
		}
	})
}

func TestAddKillCutsToTheAPI(t *testing.T) {
	long := strings.Repeat("ä", 2000)
	r := v1alpha1.KillRecord{
		ID: long, Container: long, ContainerID: long, RequestedBy: long, Message: long, StopSignal: long, Error: long, Reason: long,
		Trigger: v1alpha1.TriggerTermination, Phase: v1alpha1.KillPhaseDone, Outcome: v1alpha1.KillOutcomeFailed,
		StartTime: *microTime(t0.Add(1234567)), StopTime: microTime(t0.Add(7)), FinishTime: microTime(t0.Add(2007)),
		Grace: v1alpha1.KillGrace{Deadline: microTime(t0.Add(9))},
	}
	given := r.DeepCopy()
	got := AddKill(nil, r)[0]
	if diff := cmp.Diff(*given, r); diff != "" {
		t.Errorf("The given record was changed (-before +after):\n%s", diff)
	}
	lengths := map[string]int{}
	for name, text := range map[string]string{
		"id": got.ID, "container": got.Container, "containerID": got.ContainerID, "requestedBy": got.RequestedBy,
		"message": got.Message, "summary": got.Summary, "stopSignal": got.StopSignal, "error": got.Error, "reason": got.Reason,
	} {
		lengths[name] = utf8.RuneCountInString(text)
	}
	want := map[string]int{
		"id": 128, "container": 63, "containerID": 256, "requestedBy": 256, "message": 1024, "summary": 512,
		"stopSignal": 32, "error": 1024, "reason": 256,
	}
	if diff := cmp.Diff(want, lengths); diff != "" {
		t.Errorf("Characters (-want +got):\n%s", diff)
	}
	times := []time.Time{got.StartTime.Time, got.StopTime.Time, got.FinishTime.Time, got.Grace.Deadline.Time}
	wantTimes := []time.Time{t0.Add(1234 * time.Microsecond), t0, t0.Add(2 * time.Microsecond), t0}
	if diff := cmp.Diff(wantTimes, times); diff != "" {
		t.Errorf("Times (-want +got):\n%s", diff)
	}
}

func TestKillSummary(t *testing.T) {
	n := func(v int32) *int32 { return &v }
	l := func(v int64) *int64 { return &v }
	const done = v1alpha1.KillPhaseDone
	hook := func(outcome v1alpha1.PreStopOutcome, seconds int64) *v1alpha1.KillPreStop {
		return &v1alpha1.KillPreStop{Handler: "exec", Outcome: outcome, Seconds: seconds}
	}
	grace := v1alpha1.KillGrace{Seconds: 30, Source: v1alpha1.GraceSourcePod, UsedSeconds: 6}
	stopped := microTime(t0)
	tests := map[string]struct {
		record v1alpha1.KillRecord
		want   string
	}{
		"all parts": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerLivenessProbe, RequestedBy: "shim", Phase: done, Grace: grace,
				Message: "Container c failed liveness probe, will be restarted (3x, HTTP 503)",
				PreStop: hook(v1alpha1.PreStopSucceeded, 4), StopSignal: "SIGTERM", StopTimeoutSeconds: l(26),
				StopTime: stopped, FinishTime: microTime(t0.Add(2900 * time.Millisecond)), Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(0), Reason: "Completed",
			},
			want: "liveness probe failed (3x, HTTP 503); preStop ok 4s; SIGTERM; exited 0 within 3s (26s allowed)",
		},
		"ended during its hook": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Grace: grace, PreStop: hook(v1alpha1.PreStopFailed, 3), StopSignal: "SIGTERM", StopTimeoutSeconds: l(27),
				StopTime: stopped, FinishTime: stopped, Outcome: v1alpha1.KillOutcomeAlreadyStopped, ExitedDuring: v1alpha1.KillPhasePreStop, ExitCode: n(137), Reason: "OOMKilled",
			},
			want: "terminated; preStop failed after 3s; exited 137 (OOMKilled) during preStop",
		},
		"ended while it waited": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Grace: grace, StopTime: stopped, FinishTime: stopped,
				Outcome: v1alpha1.KillOutcomeGraceful, ExitedDuring: v1alpha1.KillPhaseWaitingForTurn, ExitCode: n(0),
			},
			want: "terminated; exited 0 while it waited for its turn",
		},
		"preStop runs": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerLivenessProbe, Phase: v1alpha1.KillPhasePreStop, Grace: grace,
				Message: "Container c failed liveness probe, will be restarted", PreStop: hook("", 0),
			},
			want: "liveness probe failed; preStop running",
		},
		"just begun": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, RequestedBy: "manager", Phase: v1alpha1.KillPhasePreStop, Message: "Stopping container c"},
			want:   "terminated by manager",
		},
		"a hook that a reboot cut off": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(0), Grace: grace, PreStop: hook(v1alpha1.PreStopTimedOut, 0),
			},
			want: "terminated; preStop cut off; exited 0 within 7s (30s allowed)",
		},
		"a hook that an outage cut off": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Phase: done, Error: "it is gone", Grace: grace, PreStop: hook(v1alpha1.PreStopTimedOut, 0)},
			want:   "terminated; preStop cut off; how it ended is not known: it is gone",
		},
		"a hook that failed at once": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Error: "it is gone", Grace: grace, PreStop: hook(v1alpha1.PreStopFailed, 0), StopTime: stopped,
			},
			want: "terminated; preStop failed after 0s; stop signal; how it ended is not known: it is gone",
		},
		"a hook that a crash cut short": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Phase: v1alpha1.KillPhaseStopping, PreStop: hook("", 0)},
			want:   "terminated; stop signal sent",
		},
		"paused": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Phase: v1alpha1.KillPhaseStopping, StopSignal: "SIGTERM", StopTimeoutSeconds: l(9), StopTime: stopped, Paused: true},
			want:   "terminated; SIGTERM sent, 9s allowed; paused, so it could not act on it",
		},
		"waits for its turn": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Phase: v1alpha1.KillPhaseWaitingForTurn, PreStop: hook(v1alpha1.PreStopFailed, 1)},
			want:   "terminated; preStop failed after 1s; waiting for its turn",
		},
		"stops": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerStartupProbe, Phase: v1alpha1.KillPhaseStopping, StopSignal: "SIGQUIT", StopTimeoutSeconds: l(9), StopTime: stopped, Message: "Container c failed startup probe: connection refused"},
			want:   "startup probe failed (connection refused); SIGQUIT sent, 9s allowed",
		},
		"forced": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeForced, ExitCode: n(137), Reason: "Error",
				Grace: v1alpha1.KillGrace{Seconds: 14, UsedSeconds: 14, ShortenedFromSeconds: l(60), ShortenedToSeconds: l(12)}, PreStop: hook(v1alpha1.PreStopTimedOut, 5),
				StopSignal: "SIGTERM", StopTimeoutSeconds: l(2), StopTime: stopped, FinishTime: microTime(t0.Add(2 * time.Second)),
			},
			want: "terminated; preStop timed out after 5s; SIGTERM; SIGKILL after 14s (grace cut from 60s to 12s)",
		},
		"cut while it is under way": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: v1alpha1.KillPhaseStopping, StopSignal: "SIGTERM", StopTimeoutSeconds: l(12),
				Grace: v1alpha1.KillGrace{Seconds: 14, ShortenedFromSeconds: l(60), ShortenedToSeconds: l(12)},
			},
			want: "terminated; grace cut from 60s to 12s; SIGTERM sent, 12s allowed",
		},
		"cut, and ended in time": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(0),
				Grace:      v1alpha1.KillGrace{Seconds: 25, UsedSeconds: 21, ShortenedFromSeconds: l(60), ShortenedToSeconds: l(5)},
				StopSignal: "SIGTERM", StopTimeoutSeconds: l(5), StopTime: stopped, FinishTime: microTime(t0.Add(21 * time.Second)),
			},
			want: "terminated; grace cut from 60s to 5s; SIGTERM; exited 0 within 22s (25s allowed)",
		},
		"forced with another exit code": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeForced, ExitCode: n(137), Reason: "OOMKilled", Grace: grace,
			},
			want: "terminated; SIGKILL after 6s (30s allowed); exited 137 (OOMKilled)",
		},
		"a clock that was set forward": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(0), Grace: grace,
				StopTimeoutSeconds: l(26), StopTime: stopped, FinishTime: microTime(t0.Add(time.Hour)),
			},
			want: "terminated; stop signal; exited 0 within 7s (30s allowed)",
		},
		"a clock that was set back": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerTermination, Phase: done, Outcome: v1alpha1.KillOutcomeForced, ExitCode: n(137), Grace: grace,
				StopTimeoutSeconds: l(26), StopTime: stopped, FinishTime: microTime(t0.Add(-time.Hour)),
			},
			want: "terminated; stop signal; SIGKILL after 6s (30s allowed)",
		},
		"forced, exit not known": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerUnknownState, Phase: done, Outcome: v1alpha1.KillOutcomeForced, Grace: grace, Message: `Container is in "unknown" state, try killing it before restart`},
			want:   "container state unknown; SIGKILL after 6s (30s allowed)",
		},
		"out of memory on the way out": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerDefinitionChanged, Message: "Container c definition changed, will be restarted", Phase: done,
				Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(137), Reason: "OOMKilled", Grace: grace, PreStop: hook(v1alpha1.PreStopSkipped, 0),
			},
			want: "definition changed; preStop skipped; exited 137 (OOMKilled) within 7s (30s allowed)",
		},
		"one field changed": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerDefinitionChanged, Message: "Container c definition changed, will be restarted", Phase: v1alpha1.KillPhaseStopping,
				ChangedFields: []string{"image"},
			},
			want: "definition changed (image); stop signal sent",
		},
		"many fields changed": {
			record: v1alpha1.KillRecord{
				Trigger: v1alpha1.TriggerDefinitionChanged, Message: "Init container c definition changed", Phase: v1alpha1.KillPhaseStopping,
				ChangedFields: []string{"image", "args", "env", "tty", "stdin"},
			},
			want: "definition changed (image, args, env and 2 more); stop signal sent",
		},
		"left, exit not known": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerOrphan, Message: "the NodeWorkload is gone", Phase: done, Outcome: v1alpha1.KillOutcomeGraceful, Grace: grace},
			want:   "orphaned (the NodeWorkload is gone); exited within 7s (30s allowed)",
		},
		"already stopped": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerContainerRemoved, Message: "Container c was removed", Phase: done, Outcome: v1alpha1.KillOutcomeAlreadyStopped, ExitCode: n(3), StopTime: stopped},
			want:   "removed from the template; had already exited 3",
		},
		"not known": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Phase: done, StopTime: stopped, StopSignal: "SIGTERM", ExitCode: n(255), Reason: "Unknown", Error: "the runtime did not see how the container ended"},
			want:   "terminated; SIGTERM; how it ended is not known: the runtime did not see how the container ended; exited 255 (Unknown)",
		},
		"not known, without a reason": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerTermination, Message: "Stopping container c", Phase: done},
			want:   "terminated; how it ended is not known",
		},
		"failed": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerSandboxChanged, Message: "Pod sandbox is not ready", Phase: done, Outcome: v1alpha1.KillOutcomeFailed, StopTime: stopped, StopSignal: "SIGTERM", Error: "deadline\n exceeded"},
			want:   "sandbox changed (Pod sandbox is not ready); SIGTERM; the kill failed: deadline exceeded",
		},
		"outside its cgroup": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerPodCgroupMissing, Message: "Pod cgroup is missing, and the containers run outside of it", Phase: done, Outcome: v1alpha1.KillOutcomeGraceful, ExitCode: n(0), Grace: grace},
			want:   "pod cgroup missing; exited 0 within 7s (30s allowed)",
		},
		"failed without a word": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerWorkloadFinished, Message: "Stopping container c", Phase: done, Outcome: v1alpha1.KillOutcomeFailed},
			want:   "workload finished; the kill failed",
		},
		"other words than the kubelet's": {
			record: v1alpha1.KillRecord{Trigger: v1alpha1.TriggerLivenessProbe, Message: "HTTP 500", Phase: v1alpha1.KillPhasePreStop},
			want:   "liveness probe failed (HTTP 500)",
		},
		"a trigger to come": {record: v1alpha1.KillRecord{Trigger: "LaterTrigger"}, want: "LaterTrigger"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, KillSummary(tc.record)); diff != "" {
				t.Errorf("Summary (-want +got):\n%s", diff)
			}
		})
	}
}
