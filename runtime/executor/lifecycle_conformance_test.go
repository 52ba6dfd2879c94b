// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// lifeVector is a line of lifecycle-trace.
type lifeVector = recordings.Life

// lifeSync is one sync here.
type lifeSync struct {
	recordings.LifeSync
	actions plan.Actions
	running int
}

func TestConformanceLifecycleTrace(t *testing.T) {
	eachVector(t, "lifecycle-trace", func(t *testing.T, v *lifeVector, excluded exclusions) {
		synctest.Test(t, func(t *testing.T) { newLife(t, v).replay(excluded) })
	})
}

// life is one replay.
type life struct {
	t       *testing.T
	v       *lifeVector
	f       *fakeRuntime
	e       *Executor
	start   time.Time
	died    bool
	backoff map[string]*plan.Backoff
}

func newLife(t *testing.T, v *lifeVector) *life {
	time.Sleep(time.Until(v.Start))
	f := newFakeRuntime()
	f.Hooks, f.Images = v.Hooks, map[string]bool{}
	for _, image := range v.ImagesPresent {
		f.Images[image] = true
	}
	f.Created = func(c *fakeContainer) { c.StopExitCode, c.SameExitCode = v.Scripts[c.Name].StopExitCode, true }
	return &life{t: t, v: v, f: f, e: newKubeletExecutor(f), start: time.Now(), backoff: map[string]*plan.Backoff{}}
}

func (l *life) replay(excluded exclusions) {
	var syncs []lifeSync
	terminal := false
	for k := 0; k < l.v.HorizonSeconds && !terminal; k++ {
		tick := l.start.Add(time.Duration(k) * time.Second)
		if time.Now().After(tick) {
			continue
		}
		time.Sleep(time.Until(tick))
		sync := l.sync(float64(k))
		if len(sync.Ops) > 0 {
			syncs = append(syncs, sync)
		}
		terminal = sync.actions.KillPod && !sync.actions.CreateSandbox
	}
	if terminal != l.v.Output.Terminal {
		l.t.Errorf("terminal: want %v, got %v", l.v.Output.Terminal, terminal)
	}
	l.compare(syncs, excluded)
	l.e.AwaitHooks()
	diffLines(l.t, "final", l.v.Output.Final, l.final())
}

// sync looks, plans and acts once.
func (l *life) sync(t float64) lifeSync {
	l.live()
	observed := l.f.observed()
	restartAll := plan.ShouldAllContainersRestart(l.v.Pod, observed, nil)
	actions := plan.Compute(plan.Input{
		Pod: l.v.Pod, Observed: observed, Probes: l.probes(observed), RestartAllContainers: restartAll,
	})
	before := len(l.f.Trace())
	result := l.e.SyncPod(l.t.Context(), plan.SyncRequest{Pod: l.v.Pod, Observed: observed, Actions: actions, Backoff: l.backoff})
	return lifeSync{
		recordings.LifeSync{
			T: t, EndedAt: time.Since(l.start).Seconds(), RestartAllContainers: restartAll,
			Ops: lifeOps(l.f.Trace()[before:]), Results: vectorResults(result.Results),
		}, actions, runningCount(observed),
	}
}

// lifeOps are the entries that the vectors keep, with the fields they keep.
func lifeOps(trace []entry) []entry {
	var ops []entry
	for _, e := range trace {
		if e.Text("reason") == "BackOff" || e.Text("reason") == "Pulled" {
			continue
		}
		e = maps.Clone(e)
		delete(e, "fieldPath")
		delete(e, "object")
		ops = append(ops, e)
	}
	return ops
}

// live lets the containers do what their script says, up to now.
func (l *life) live() {
	now := time.Now()
	death := time.Time{}
	if l.v.SandboxDeathAt != nil && !l.died {
		death = l.start.Add(time.Duration(*l.v.SandboxDeathAt * float64(time.Second)))
	}
	dies := !death.IsZero() && !death.After(now)
	for _, c := range l.f.Containers {
		// The vectors' runtime learns only now how long a container takes to
		// stop: one that is killed in the sync that started it leaves at once.
		c.StopSeconds = l.v.Scripts[c.Name].StopSeconds
		if c.State != plan.ContainerRunning {
			continue
		}
		runs := l.v.Scripts[c.Name].Runs
		run := runs[min(c.RestartCount, len(runs)-1)]
		end := time.Time{}
		if run.RunSeconds != nil {
			end = c.StartedAt.Add(time.Duration(*run.RunSeconds * float64(time.Second)))
		}
		switch {
		case !end.IsZero() && !end.After(now) && (!dies || !end.After(death)):
			c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, run.ExitCode, end
		case dies:
			c.State, c.ExitCode, c.FinishedAt = plan.ContainerExited, exitCodeSIGKILL, death
		}
	}
	if dies {
		l.died = true
		for _, s := range l.f.Sandboxes {
			s.State = plan.SandboxNotReady
		}
	}
}

// probes are the verdicts about the containers that run.
func (l *life) probes(observed *plan.PodStatus) map[string]plan.ProbeResults {
	results := map[string]plan.ProbeResults{}
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.State != plan.ContainerRunning {
			continue
		}
		script := l.v.Scripts[c.Name]
		r := plan.ProbeResults{Liveness: plan.ProbeSuccess}
		for _, at := range script.LivenessFailureAt {
			failure := l.start.Add(time.Duration(at * float64(time.Second)))
			if failure.After(c.StartedAt) && !failure.After(time.Now()) {
				r.Liveness = plan.ProbeFailure
			}
		}
		if spec := podspec.Container(l.v.Pod, c.Name); spec != nil && spec.StartupProbe != nil {
			r.Startup = startupOf(script, c)
		}
		results[c.ID] = r
	}
	return results
}

func startupOf(s recordings.LifeScript, c *plan.ContainerStatus) plan.ProbeResult {
	age := time.Since(c.StartedAt).Seconds()
	switch {
	case s.StartupFailureAfter != nil && c.RestartCount == 0:
		if age >= *s.StartupFailureAfter {
			return plan.ProbeFailure
		}
	case s.StartupSuccessAfter != nil && age >= *s.StartupSuccessAfter:
		return plan.ProbeSuccess
	}
	return plan.ProbeUnknown
}

// final are the newest instances.
func (l *life) final() map[string]recordings.LifeFinal {
	out := map[string]recordings.LifeFinal{}
	for _, c := range slices.Backward(l.f.Containers) {
		out[c.Name] = recordings.LifeFinal{ID: c.ID, State: string(c.State), ExitCode: c.ExitCode, RestartCount: c.RestartCount}
	}
	return out
}

// compare compares the syncs one by one.
func (l *life) compare(got []lifeSync, excluded exclusions) {
	l.t.Helper()
	want := l.v.Output.Syncs
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i].T != got[i].T {
			l.t.Fatalf("sync %d: want %v, got %v", i, want, got)
		}
		w, g := want[i], got[i].LifeSync
		wantOps, gotOps := canonicalTraces(w.Ops, g.Ops, got[i].actions, got[i].running, excluded)
		w.Ops, g.Ops = nil, nil
		w.Results, g.Results = recordings.KillResults(w.Results), recordings.KillResults(g.Results)
		diffLines(l.t, "ops", rendered(wantOps), rendered(gotOps))
		diffLines(l.t, "sync", w, g)
	}
}
