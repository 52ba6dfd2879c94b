// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

func TestOutcome(t *testing.T) {
	tests := map[string]struct {
		edit        func(c *fakeContainer)
		wantOutcome v1alpha1.KillOutcome
		wantExit    int32
		wantErr     bool
	}{
		"leaves within its time": {
			edit:        func(c *fakeContainer) { c.StopSeconds, c.StopExitCode = 3, 143 },
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 143,
		},
		"ignores SIGTERM": {
			edit: ignoresTerm, wantOutcome: v1alpha1.KillOutcomeForced, wantExit: 137,
		},
		"exits with 137 by itself": {
			edit:        func(c *fakeContainer) { c.StopSeconds, c.StopExitCode = 3, 137 },
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 137,
		},
		"ignores SIGTERM, and the OOM killer had killed a process of it": {
			edit:        func(c *fakeContainer) { c.IgnoresTerm, c.OOMKilled = true, true },
			wantOutcome: v1alpha1.KillOutcomeForced, wantExit: 137,
		},
		"ends after its time but not by SIGKILL": {
			edit: func(c *fakeContainer) {
				c.IgnoresTerm, c.SameExitCode, c.StopExitCode = true, true, 255
			},
			wantOutcome: v1alpha1.KillOutcomeGraceful, wantExit: 255,
		},
		"had left before": {
			edit: func(c *fakeContainer) {
				c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, 137, time.Now().Add(-time.Second)
			},
			wantOutcome: v1alpha1.KillOutcomeAlreadyStopped, wantExit: 137,
		},
		"cannot be stopped": {
			edit:        func(c *fakeContainer) { c.StopError = "Unknown" },
			wantOutcome: v1alpha1.KillOutcomeFailed, wantErr: true,
		},
		"runs on though the runtime says it does not": {
			edit:        func(c *fakeContainer) { c.StopError = "NotFound" },
			wantOutcome: v1alpha1.KillOutcomeFailed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.edit)
				e := newFakeExecutor(f)
				err := e.KillContainer(t.Context(), testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe}))
				if (err != nil) != tc.wantErr {
					t.Errorf("error %v", err)
				}
				rec := f.lastRecords()[0]
				if rec.Outcome != tc.wantOutcome {
					t.Errorf("outcome %s, want %s", rec.Outcome, tc.wantOutcome)
				}
				if tc.wantOutcome == v1alpha1.KillOutcomeFailed {
					if rec.Error == "" || rec.ExitCode != nil {
						t.Errorf("record of a failed kill: %+v", rec)
					}
					return
				}
				if rec.ExitCode == nil || *rec.ExitCode != tc.wantExit {
					t.Errorf("exit code %v, want %d", rec.ExitCode, tc.wantExit)
				}
			})
		})
	}
}

func TestOutcomeIsOnlyToldWhereItIsKnown(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(n int) time.Time { return asked.Add(time.Duration(n) * time.Second) }
	exited := func(code int32, reason string, finished time.Time) *plan.ContainerStatus {
		return &plan.ContainerStatus{State: plan.ContainerExited, ExitCode: code, Reason: reason, FinishedAt: finished}
	}
	const (
		graceful = v1alpha1.KillOutcomeGraceful
		forced   = v1alpha1.KillOutcomeForced
		already  = v1alpha1.KillOutcomeAlreadyStopped
		failed   = v1alpha1.KillOutcomeFailed
	)
	tests := map[string]struct {
		in      ending
		want    v1alpha1.KillOutcome
		wantWhy string
	}{
		"gone, and had been":        {in: ending{gone: true, stoppedBefore: true, err: errorOf("NotFound")}, want: already},
		"gone meanwhile":            {in: ending{gone: true, err: errorOf("NotFound")}, wantWhy: "the runtime does not know the container any more"},
		"no answer":                 {in: ending{err: errorOf("Unavailable")}, wantWhy: "the runtime does not answer about the container: rpc error: code = Unavailable desc = connection refused"},
		"no answer, but had left":   {in: ending{stoppedBefore: true, err: errorOf("Unavailable")}, want: already},
		"runs":                      {in: ending{after: &plan.ContainerStatus{State: plan.ContainerRunning}}, want: failed, wantWhy: "the container runs although the runtime reported that it was stopped"},
		"state lost":                {in: ending{after: &plan.ContainerStatus{State: plan.ContainerUnknown}}, wantWhy: `the runtime has the container in the state "unknown"`},
		"state lost, stopped":       {in: ending{after: &plan.ContainerStatus{State: plan.ContainerUnknown}, stopped: true}, want: failed, wantWhy: errMayRun.Error()},
		"never started":             {in: ending{after: &plan.ContainerStatus{State: plan.ContainerCreated}}, wantWhy: `the runtime has the container in the state "created"`},
		"forced, clock set back":    {in: ending{ran: true, after: exited(137, "Error", at(-60)), stopped: true, forced: true}, want: forced},
		"left, clock set back":      {in: ending{ran: true, after: exited(0, "Completed", at(-60)), stopped: true}, want: graceful},
		"away: clock set back":      {in: ending{ran: true, unwatched: true, until: at(10), after: exited(137, "Error", at(-60))}, wantWhy: clockSet},
		"no time":                   {in: ending{after: exited(0, "", time.Time{})}, wantWhy: unknownTime},
		"left before":               {in: ending{after: exited(137, "Error", at(-1)), stopped: true}, want: already},
		"left before, seen late":    {in: ending{ran: true, begun: asked, ended: at(1), took: time.Second, after: exited(1, "Error", at(-3)), stopped: true}, want: already},
		"left late, clock set back": {in: ending{ran: true, begun: asked, ended: at(-59), took: time.Second, after: exited(1, "Error", at(-60)), stopped: true}, want: graceful},
		"left in the same second":   {in: ending{ran: true, begun: at(0).Add(900 * time.Millisecond), ended: at(2), took: time.Second, after: exited(0, "", at(0)), stopped: true}, want: graceful},
		"SIGKILL during the hook":   {in: ending{during: v1alpha1.KillPhasePreStop, hooked: true, after: exited(137, "Error", at(3)), stopped: true}, want: already},
		"OOM during the hook":       {in: ending{during: v1alpha1.KillPhasePreStop, hooked: true, after: exited(137, "OOMKilled", at(3)), stopped: true}, want: already},
		"by its hook":               {in: ending{during: v1alpha1.KillPhasePreStop, hooked: true, after: exited(0, "Completed", at(3)), stopped: true}, want: graceful},
		"after its hook, in turn":   {in: ending{during: v1alpha1.KillPhaseWaitingForTurn, hooked: true, after: exited(1, "Error", at(3)), stopped: true}, want: graceful},
		"by itself, in turn":        {in: ending{during: v1alpha1.KillPhaseWaitingForTurn, after: exited(0, "Completed", at(3)), stopped: true}, want: already},
		"away: SIGKILL in the hook": {in: ending{unwatched: true, until: at(10), during: v1alpha1.KillPhasePreStop, hooked: true, after: exited(137, "Error", at(3))}, want: already},
		"left in time":              {in: ending{after: exited(137, "Error", at(9)), stopped: true}, want: graceful},
		"forced":                    {in: ending{after: exited(137, "Error", at(10)), stopped: true, forced: true}, want: forced},
		"forced, after an OOM kill": {in: ending{after: exited(137, "OOMKilled", at(10)), stopped: true, forced: true}, want: forced},
		"out of memory before":      {in: ending{begun: asked, ended: at(12), took: 12 * time.Second, forcedFrom: at(10), after: exited(137, "OOMKilled", at(5)), stopped: true, forced: true}, want: graceful},
		"out of memory, clock set":  {in: ending{begun: asked, ended: at(2), took: 12 * time.Second, forcedFrom: at(10), after: exited(137, "OOMKilled", at(0)), stopped: true, forced: true}, want: forced},
		"forced, a slow clock":      {in: ending{begun: asked, ended: at(12), took: 12 * time.Second, forcedFrom: at(10), after: exited(137, "Error", at(10).Add(-300*time.Millisecond)), stopped: true, forced: true}, want: forced},
		"killed by others, late":    {in: ending{begun: asked, ended: at(12), took: 12 * time.Second, forcedFrom: at(10), after: exited(137, "Error", at(5)), stopped: true, forced: true}, want: graceful},
		"a program's own 255":       {in: ending{after: exited(255, "Error", at(2)), stopped: true}, want: graceful},
		"unseen by containerd":      {in: ending{after: exited(255, "Unknown", at(2)), stopped: true}, wantWhy: unseenEnd},
		"unseen, but found before":  {in: ending{after: exited(255, "Unknown", at(-2)), stopped: true}, want: already},
		"cleaned up after its loss": {in: ending{after: exited(255, "Error", at(2)), lost: true, stopped: true}, wantWhy: unseenEnd},
		"lost, and stopped":         {in: ending{after: exited(0, "Completed", at(2)), lost: true, stopped: true}, want: graceful},
		"away: left before":         {in: ending{unwatched: true, until: at(10), after: exited(0, "", at(-1))}, want: already},
		"away: left in time":        {in: ending{unwatched: true, until: at(10), after: exited(0, "", at(9))}, want: graceful},
		"away: killed in time":      {in: ending{unwatched: true, until: at(10), after: exited(137, "", at(9))}, want: graceful},
		"away: killed too late":     {in: ending{unwatched: true, until: at(10), after: exited(137, "Error", at(10))}, wantWhy: unseenForce},
		"away: out of memory late":  {in: ending{unwatched: true, until: at(10), after: exited(137, "OOMKilled", at(11))}, wantWhy: leftLate},
		"away: left too late":       {in: ending{unwatched: true, until: at(10), after: exited(0, "", at(3600))}, wantWhy: leftLate},
		"away: unseen":              {in: ending{unwatched: true, until: at(10), after: exited(255, "Unknown", at(9))}, wantWhy: unseenEnd},
		"away: gone":                {in: ending{unwatched: true, until: at(10), gone: true, err: errorOf("NotFound")}, wantWhy: "the runtime does not know the container any more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.requested = asked
			got, why := outcomeOf(tc.in)
			if got != tc.want || why != tc.wantWhy {
				t.Errorf("outcome %q (%s), want %q (%s)", got, why, tc.want, tc.wantWhy)
			}
		})
	}
}

// mute is a runtime that answers about its containers only so often.
type mute struct {
	*fakeRuntime
	answers int
	err     error
}

func (m *mute) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	if m.answers--; m.answers < 0 {
		return plan.ContainerStatus{}, m.err
	}
	return m.fakeRuntime.ContainerStatus(ctx, id)
}

func TestOutcomeWithoutAnswers(t *testing.T) {
	exited := func(c *fakeContainer) { c.State, c.FinishedAt = plan.ContainerExited, time.Now().Add(-time.Second) }
	tests := map[string]struct {
		edit    func(c *fakeContainer)
		answers int
		err     string
		want    v1alpha1.KillOutcome
		wantErr string
	}{
		"silent after the kill":             {answers: 1, err: "Unavailable", wantErr: "the runtime does not answer about the container: "},
		"silent all the time":               {err: "Unavailable", wantErr: "the runtime does not answer about the container: "},
		"silent, but it had left":           {edit: exited, answers: 1, err: "Unavailable", want: v1alpha1.KillOutcomeAlreadyStopped},
		"removed by others during the kill": {answers: 1, err: "NotFound", wantErr: "the runtime does not know the container any more"},
		"was not there":                     {err: "NotFound", want: v1alpha1.KillOutcomeAlreadyStopped},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.edit)
				e := newFakeExecutor(f)
				e.runtime = &mute{f, tc.answers, errorOf(tc.err)}
				if err := e.KillContainer(t.Context(), testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe})); err != nil {
					t.Fatal(err)
				}
				rec := f.lastRecords()[0]
				if rec.Phase != v1alpha1.KillPhaseDone || rec.Outcome != tc.want || !strings.HasPrefix(rec.Error, tc.wantErr) || (rec.Error == "") != (tc.wantErr == "") {
					t.Errorf("phase %s, outcome %q, error %q; want %q, %q", rec.Phase, rec.Outcome, rec.Error, tc.want, tc.wantErr)
				}
			})
		})
	}
}

// deaf is a runtime that does not take a second StopContainer.
type deaf struct {
	*fakeRuntime
	asked atomic.Bool
}

func (d *deaf) StopContainer(ctx context.Context, id string, timeout int64) error {
	if d.asked.Swap(true) {
		return errorOf("Unavailable")
	}
	return d.fakeRuntime.StopContainer(ctx, id, timeout)
}

// slowStop is a runtime whose answer to StopContainer comes late, or is an error.
type slowStop struct {
	*fakeRuntime
	by  time.Duration
	err error
}

func (l *slowStop) StopContainer(ctx context.Context, id string, timeout int64) error {
	err := l.fakeRuntime.StopContainer(ctx, id, timeout)
	time.Sleep(l.by)
	return cmp.Or(l.err, err)
}

// A container that has exited was killed, also where the runtime's answer was an error: the kill has
// an outcome, and what follows it does not wait for another try.
func TestAnExitBesideAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		edit        func(*fakeContainer)
		differences plan.Differences
		want        v1alpha1.KillOutcome
	}{
		"exits in time":                 {func(c *fakeContainer) { c.StopSeconds = 3 }, plan.AllDifferences(), v1alpha1.KillOutcomeGraceful},
		"exits with 137 in time":        {func(c *fakeContainer) { c.StopSeconds, c.StopExitCode = 3, 137 }, plan.AllDifferences(), v1alpha1.KillOutcomeGraceful},
		"ignores SIGTERM":               {ignoresTerm, plan.AllDifferences(), v1alpha1.KillOutcomeForced},
		"as the kubelet, that it fails": {func(c *fakeContainer) { c.StopSeconds = 3 }, plan.Differences{}, v1alpha1.KillOutcomeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.edit)
				e := newExecutorWith(f, tc.differences)
				e.runtime = &slowStop{f, time.Second, errorOf("Unavailable")}
				err := e.KillContainer(t.Context(), testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe}))
				rec := f.lastRecords()[0]
				failed := tc.want == v1alpha1.KillOutcomeFailed
				if rec.Outcome != tc.want || (err != nil) != failed || (rec.Error != "") != failed || rec.ExitCode == nil {
					t.Errorf("error %v, record %+v", err, rec)
				}
			})
		})
	}
}

// A kill has ended when the container left, not when that was seen: neither its time nor its outcome
// is that of a runtime that was down meanwhile.
func TestAnEndThatIsSeenLate(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*fakeContainer)
		want v1alpha1.KillOutcome
		used int64
	}{
		"exits in time":         {func(c *fakeContainer) { c.StopSeconds = 3 }, v1alpha1.KillOutcomeGraceful, 3},
		"exits with 137":        {func(c *fakeContainer) { c.StopSeconds, c.StopExitCode = 3, 137 }, v1alpha1.KillOutcomeGraceful, 3},
		"ignores SIGTERM":       {ignoresTerm, v1alpha1.KillOutcomeForced, 10},
		"the OOM killer is why": {func(c *fakeContainer) { c.StopSeconds, c.StopExitCode, c.OOMKilled = 3, 137, true }, v1alpha1.KillOutcomeGraceful, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", tc.edit)
				e := newFakeExecutor(f)
				e.runtime = &slowStop{f, time.Minute, nil}
				if err := e.KillContainer(t.Context(), testPod(10, nil), killApp(testPod(10, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe})); err != nil {
					t.Fatal(err)
				}
				rec := f.lastRecords()[0]
				took := rec.FinishTime.Sub(rec.StartTime.Time)
				if rec.Outcome != tc.want || rec.Grace.UsedSeconds != tc.used || took != time.Duration(tc.used)*time.Second {
					t.Errorf("outcome %s after %d s (%s), want %s after %d s", rec.Outcome, rec.Grace.UsedSeconds, took, tc.want, tc.used)
				}
			})
		})
	}
}

// A StopContainer that failed forces nothing, though its time is over.
func TestAFailedShorteningForcesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", func(c *fakeContainer) { c.StopSeconds, c.StopExitCode = 30, 137 })
		e := newFakeExecutor(f)
		e.runtime = &deaf{fakeRuntime: f}
		done := make(chan error)
		go func() {
			done <- e.KillContainer(t.Context(), testPod(60, nil), killApp(testPod(60, nil), f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		}()
		time.Sleep(10 * time.Second)
		e.Shorten(testUID, 5)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := f.lastRecords()[0]; got.Outcome != v1alpha1.KillOutcomeGraceful || got.Grace.UsedSeconds != 30 {
			t.Errorf("outcome %s after %d s", got.Outcome, got.Grace.UsedSeconds)
		}
	})
}
