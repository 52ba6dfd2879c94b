// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// What a preview says about a random state is what the executor then does: the same
// kills with the same reasons, grace periods and hooks, StopContainer with what the
// hook and the wait for others leave, the sandboxes, removals and starts, each at its
// time.
func TestPreviewComesTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			s := drawState(rt)
			preview := newBuilder(s.in).compute(s.probes)
			want := (&forecast{hooks: s.hooks}).of(preview)
			if diff := gocmp.Diff(want, s.carryOut(rt)); diff != "" {
				var shown strings.Builder
				_ = WriteTable(&shown, preview)
				rt.Errorf("%s(-preview +executor):\n%s", &shown, diff)
			}
		})
	})
}

// carryOut does with a state what the worker does, and returns what happened.
func (s *state) carryOut(t *rapid.T) []string {
	o := newObedient(s)
	e := executor.New(executor.Config{Runtime: o, Events: o, Kills: o, Differences: plan.AllDifferences()})
	pod, observed := s.in.Pod, s.in.Observed
	now, previous := plan.Moment{Wall: s.in.Now}, s.previous()
	var active *plan.Activity
	if previous != nil {
		active = active.Seen(previous.StartTime, now)
	}
	st := status.Compute(status.Input{
		Pod: pod, Observed: observed, Probes: s.probes, Previous: previous,
		Ending: plan.PastActiveDeadline(pod, previous, active.Active(now)), Now: s.in.Now,
	})
	deleted := pod.DeletionTimestamp != nil || s.in.Misplaced != ""
	if termination, terminate := plan.DecideTermination(plan.Existence{Deleted: deleted, Status: &st}); terminate {
		grace := termination.Grace(pod, plan.Grace{})
		if _, err := e.KillPod(t.Context(), termination.Request(pod, observed, grace, nil)); err != nil {
			t.Fatal(err)
		}
		return inOrder(o.lines)
	}
	in := plan.Input{
		Images: s.asked, Pod: pod, Observed: observed, Probes: s.probes, Definitions: plan.Define(pod),
		RestartAllContainers: plan.AllContainersRestarting(&st), Differences: plan.AllDifferences(),
		Prepared: map[plan.ImageKey]plan.Preparation{},
	}
	for c := range podspec.InitAndMain(pod) {
		for _, key := range plan.ImageKeysOf(pod, c) {
			if ref := s.in.Images[key.Image]; ref != "" && key.PresenceMatters() {
				in.Prepared[key] = plan.Preparation{Ref: ref}
			}
		}
	}
	actions := plan.Compute(in)
	for _, w := range actions.Waits {
		if _, done := in.Prepared[w.Image]; done || actions.KillPod {
			continue
		}
		got, err := e.PrepareImage(t.Context(), pod, w.Container, w.Image, func() {})
		if err != nil {
			t.Fatal(err)
		}
		in.Prepared[w.Image] = got
	}
	actions = plan.Compute(in)
	o.removesInit = !actions.KillPod && len(actions.ContainersToReset) > 0
	outcome := e.SyncPod(t.Context(), plan.SyncRequest{Pod: pod, Observed: observed, Actions: actions, Backoff: map[string]*plan.Backoff{}})
	if outcome.Err != nil {
		t.Fatal(outcome.Err)
	}
	return inOrder(o.lines)
}

// line is something that happens at a time since the begin.
type line struct {
	at   time.Duration
	what string
}

// inOrder sorts by time; what happens at one time has no order.
func inOrder(lines []line) []string {
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what)) })
	out := []string{}
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%.1f s: %s", l.at.Seconds(), l.what))
	}
	return out
}

// callTime is how long a call of the runtime takes, but for a hook.
const callTime = time.Second

// forecast is what a preview promises, on a runtime whose calls take callTime.
type forecast struct {
	// hooks is how long the exec hook of a container takes, by name.
	hooks map[string]time.Duration
	lines []line
	now   time.Duration
}

func (f *forecast) add(at time.Duration, format string, args ...any) {
	f.lines = append(f.lines, line{at, fmt.Sprintf(format, args...)})
}

// call is one call of the runtime.
func (f *forecast) call(format string, args ...any) {
	f.add(f.now, format+" begins", args...)
	f.now += callTime
	f.add(f.now, format+" ends", args...)
}

func (f *forecast) of(p Preview) []string {
	steps := p.Steps
	for len(steps) > 0 && steps[0].Action == ActionPull { // before any kill
		f.call("PullImage %s", steps[0].Message)
		steps = steps[1:]
	}
	f.killAtOnce(p.Kills())
	for _, s := range steps {
		switch s.Action {
		case ActionKill: // see above
		case ActionStopSandbox:
			f.call("StopSandbox %s", s.ID)
		case ActionCreateSandbox:
			f.call("RunSandbox")
		case ActionPull:
			f.call("PullImage %s", s.Message)
		case ActionStart:
			f.call("StartContainer %s", s.Container)
		case ActionRemove:
			// What a deletion removes the worker does later.
			if p.ends() {
				continue
			}
			f.call("RemoveContainer %s", s.ID)
		case ActionResize:
			f.call("UpdateContainerResources %s", s.ID)
		}
	}
	return inOrder(f.lines)
}

// ends is whether the preview is that of a termination.
func (p *Preview) ends() bool {
	stop := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Action == ActionStopSandbox })
	return stop >= 0 && !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == ActionCreateSandbox })
}

// killAtOnce are kills that begin at once, of which some wait for others.
func (f *forecast) killAtOnce(kills []Step) {
	ends := map[string]time.Duration{} // of the first instance of a name
	last := f.now                      // when all have ended
	for range kills {
		for _, k := range kills {
			if _, known := ends[k.Container]; known {
				continue
			}
			if !slices.ContainsFunc(waitsFor(kills, k.Container), func(name string) bool { _, known := ends[name]; return !known }) {
				last = max(last, f.killInstances(kills, k.Container, ends))
			}
		}
	}
	f.now = last
}

// waitsFor returns what any instance of a name waits for.
func waitsFor(kills []Step, name string) (names []string) {
	for _, k := range kills {
		if k.Container == name {
			names = append(names, k.WaitsFor...)
		}
	}
	return names
}

// killInstances kills all instances of a name, and returns when the last of them has ended.
func (f *forecast) killInstances(kills []Step, name string, ends map[string]time.Duration) (last time.Duration) {
	for _, k := range kills {
		if k.Container != name {
			continue
		}
		var turn time.Duration
		for _, other := range k.WaitsFor {
			turn = max(turn, ends[other])
		}
		end := f.kill(k, turn)
		last = max(last, end)
		if first, known := ends[name]; known {
			end = min(first, end)
		}
		ends[name] = end
	}
	return last
}

// kill is one kill that begins now and stops its container not before its turn, if its
// grace period allows that; it returns when the container has ended. The hook and the
// wait are taken off in whole seconds, and StopContainer is given 2 s at least.
func (f *forecast) kill(s Step, turn time.Duration) time.Duration {
	now, left := f.now, s.Grace.Seconds
	spend := func(d time.Duration) {
		d = min(d, time.Duration(left)*time.Second)
		now, left = now+d, left-int64(d/time.Second)
	}
	f.add(now, "kill %s: %s %q, %d s from %s, hook %q", s.ID, s.Trigger, s.Message, s.Grace.Seconds, s.Grace.Source, s.PreStop)
	switch s.PreStop {
	case "exec":
		f.add(now, "hook of %s begins", s.ID)
		spend(f.hooks[s.Container])
		f.add(now, "hook of %s ends", s.ID)
	case "sleep":
		spend(sleepHook * time.Second)
	}
	if left > 0 && turn > now {
		spend(turn - now)
	}
	stop := fmt.Sprintf("StopContainer %s, %d s,", s.ID, max(left, 2))
	f.add(now, "%s begins", stop)
	f.add(now+callTime, "%s ends", stop)
	return now + callTime
}

// A plan's action that a preview leaves out would be worse than no preview:
// a new field of plan.Actions needs a step in sync.go, and a line here.
func TestEveryActionIsShown(t *testing.T) {
	known := []string{
		"KillPod", "Trigger", "Message",
		"Redefined", // the message says that
		"CreateSandbox", "SandboxID", "Attempt", "ContainersToKill", "ContainersToReset",
		"EphemeralContainersToStart", "InitContainersToStart", "ContainersToStart", "Images",
		"MemoryToUpdate", "CPUToUpdate", "UpdatePodResources",
		"Waits", "MissingWaits", "Kept", "Held", "KeepsSandbox", // why nothing happens
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[plan.Actions]()) {
		if !slices.Contains(known, f.Name) {
			t.Errorf("runtime/preview does not show plan.Actions.%s", f.Name)
		}
	}
}

// previous is the status that was published last.
func (s *state) previous() *corev1.PodStatus {
	if s.in.Status == nil {
		return nil
	}
	previous := status.PodStatus(s.in.Status)
	return &previous
}
