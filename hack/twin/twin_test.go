// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

// sample is a record of a container with a hook that is deleted after 10 s.
func sample(edit func(*record)) *record {
	r := &record{
		dir: "/d", uid: "u", object: "o", asked: at(9.9), deleted: at(10),
		journals: map[string][]entry{"c": {
			{at(0), "started pid=1"}, {at(10.1), "preStop begin"}, {at(11.1), "preStop end"}, {at(11.2), "signal SIGTERM"},
		}},
		lives: []life{{container: "c", started: at(0), ended: at(14), exitCode: 137, reason: "Error"}},
		events: []corev1.Event{{
			Type: "Normal", Reason: "Killing", Message: "Stopping container c", Count: 1,
			InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{c}"},
		}},
		states: []state{{"end", corev1.PodStatus{
			Phase:             corev1.PodFailed,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}}}},
		}}},
	}
	edit(r)
	return r
}

// Everything that can differ is found, and what may not differ is not.
func TestCompare(t *testing.T) {
	tests := map[string]struct {
		edit func(*record)
		want []string // aspects
	}{
		"the same": {edit: func(*record) {}},
		"other identities and times": {edit: func(r *record) {
			r.dir, r.uid, r.object = "/e", "v", "p"
			r.asked, r.deleted = at(19.9), at(20)
			r.journals["c"] = []entry{{at(0), "started pid=1"}, {at(20.3), "preStop begin"}, {at(21.2), "preStop end"}, {at(21.5), "signal SIGTERM"}}
			r.lives[0].ended = at(24.4)
			r.states[0].status.ContainerStatuses[0].ContainerID = ""
		}},
		"no hook": {
			edit: func(r *record) {
				r.journals["c"] = append(r.journals["c"][:1:1], r.journals["c"][3])
			},
			want: []string{"journal c", "time in c#0: exit", "time in c#0: signal SIGTERM", "time of termination: c exit", "time of termination: c signal SIGTERM", "time of termination: first sign"},
		},
		"killed a second early": {
			edit: func(r *record) { r.lives[0].ended = at(13) },
			want: []string{"time in c#0: exit", "time of termination: c exit"},
		},
		"another exit code": {
			edit: func(r *record) {
				r.lives[0].exitCode = 0
				r.states[0].status.ContainerStatuses[0].State.Terminated.ExitCode = 0
			},
			want: []string{"runtime exits of c", "status at end: c.state.terminated.exitCode"},
		},
		"other words": {
			edit: func(r *record) { r.events[0].Message = "Stopping" },
			want: []string{`event Normal Killing "Stopping container c" on spec.containers{c}`, `event Normal Killing "Stopping" on spec.containers{c}`},
		},
		"an event twice": {
			edit: func(r *record) { r.events[0].Count = 2 },
			want: []string{`event Normal Killing "Stopping container c" on spec.containers{c}`},
		},
		"another phase and condition": {
			edit: func(r *record) {
				r.states[0].status.Phase = corev1.PodSucceeded
				r.states[0].status.Conditions[0].Reason = "PodCompleted"
			},
			want: []string{"status at end: condition Ready", "status at end: phase"},
		},
		"one more instance": {
			edit: func(r *record) {
				r.lives = append(r.lives, life{container: "c", attempt: 1, started: at(15), ended: at(16)})
				r.states[0].status.ContainerStatuses[0].RestartCount = 1
			},
			want: []string{"runtime exits of c", "status at end: c.restartCount"},
		},
		"another course": {
			edit: func(r *record) { r.failure = "step" },
			want: []string{"course"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			differences := compare(sample(func(*record) {}), sample(tc.edit))
			rest, declared := undeclared(&scenario{}, differences)
			for _, d := range rest {
				got = append(got, d.aspect)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(declared) > 0 {
				t.Errorf("aspects (-want +got):\n%s%v", diff, declared)
			}
		})
	}
}

// A rule declares its own difference and nothing that looks like it.
func TestDeclared(t *testing.T) {
	overrunning := scenario{spec: pod(2, preStop(serve("c"), marked("c", "preStop", 2250*time.Millisecond)))}
	inTime := scenario{spec: pod(2, preStop(serve("c"), marked("c", "preStop", 1750*time.Millisecond)))}
	cancelled := func(shim string) difference {
		return difference{aspect: hookCancelled + "spec.containers{c}", shim: shim}
	}
	failed := func(kubelet, shim string) difference {
		return difference{aspect: hookFailed + "spec.containers{c}", kubelet: kubelet, shim: shim}
	}
	toResize := scenario{spec: pod(2, withResources(serve("c"), resources(50, 48)))}
	completed := func(r corev1.ResourceRequirements, side string) difference {
		data, err := json.Marshal(map[string]any{"containers": []any{map[string]any{"name": "c", "resources": r}}, "generation": 2})
		if err != nil {
			t.Fatal(err)
		}
		d := difference{aspect: fmt.Sprintf("event Normal ResizeCompleted %q on ", "Pod resize completed: "+string(data))}
		if side == "shim" {
			d.shim = "sent"
		} else {
			d.kubelet = "sent"
		}
		return d
	}
	tests := map[string]struct {
		scenario scenario
		d, also  difference // also differs in the same run
		want     bool
	}{
		"our event":                       {d: difference{aspect: `event Normal Killed "x" on spec.containers{c}`, shim: "sent"}, want: true},
		"an event Killed of the kubelet":  {d: difference{aspect: `event Normal Killed "x" on spec.containers{c}`, kubelet: "sent"}},
		"our event Killing":               {d: difference{aspect: `event Normal Killing "x" on spec.containers{c}`, shim: "sent 1 times"}},
		"our condition":                   {d: difference{aspect: "status at end: condition RuntimeUsable", shim: "True RuntimeReady"}, want: true},
		"a reason where none was":         {d: difference{aspect: "status at end: condition Ready", kubelet: "True", shim: "True PodReady"}, want: true},
		"another status with that reason": {d: difference{aspect: "status at end: condition Ready", kubelet: "False", shim: "True PodReady"}},
		"another reason":                  {d: difference{aspect: "status at end: condition Ready", kubelet: "False ContainersNotReady", shim: "False PodReady"}},
		"a stop signal":                   {d: difference{aspect: "status at end: c.stopSignal", shim: "SIGTERM"}, want: true},
		"another stop signal":             {d: difference{aspect: "status at end: c.stopSignal", shim: "SIGUSR1"}},
		"a shortened kill":                {scenario: scenario{shorten: &shortened{}}, d: difference{aspect: "time in c#0: exit", timed: true, seconds: [2]float64{20, 4}}, want: true},
		"a kill that took longer":         {scenario: scenario{shorten: &shortened{}}, d: difference{aspect: "time in c#0: exit", timed: true, seconds: [2]float64{4, 20}}},
		"an early kill, not shortened":    {d: difference{aspect: "time in c#0: exit", timed: true, seconds: [2]float64{20, 4}}},
		"a termination that begins early": {d: difference{aspect: "time of termination: first sign", timed: true, seconds: [2]float64{2, 0}}, want: true},
		"one that begins late":            {d: difference{aspect: "time of termination: first sign", timed: true, seconds: [2]float64{0, 2}}},
		"an early one where a hook sleeps": {
			scenario: scenario{spec: pod(5, preStop(serve("c"), sleeping(2)))},
			d:        difference{aspect: "time of termination: first sign", timed: true, seconds: [2]float64{2, 0}},
		},
		"our word of a hook that was cut off":           {scenario: overrunning, d: cancelled("sent 1 times"), want: true},
		"our word of a hook that was not":               {scenario: inTime, d: cancelled("sent 1 times")},
		"our word of a container without a hook":        {scenario: scenario{spec: pod(2, serve("c"))}, d: cancelled("sent 1 times")},
		"the kubelet's word of a hook that was cut off": {scenario: overrunning, d: failed("sent 2 times", ""), also: cancelled("sent 2 times"), want: true},
		"one of several":                                {scenario: overrunning, d: failed("sent 3 times", "sent 2 times"), also: cancelled("sent 2 times"), want: true},
		"more of the kubelet's words than of ours":      {scenario: overrunning, d: failed("sent 2 times", ""), also: cancelled("sent 1 times")},
		"the kubelet's word and none of ours":           {scenario: overrunning, d: failed("sent 1 times", "")},
		"one more event of ours":                        {scenario: overrunning, d: failed("sent 1 times", "sent 2 times"), also: cancelled("sent 1 times")},
		"a hook's event, in time":                       {scenario: inTime, d: failed("sent 1 times", ""), also: cancelled("sent 1 times")},
		"a word about another container's hook": {
			scenario: overrunning, d: failed("sent 1 times", ""),
			also: difference{aspect: hookCancelled + "spec.containers{d}", shim: "sent 1 times"},
		},
		"cut off by the deletion's grace period": {
			scenario: scenario{spec: inTime.spec, grace: ptr.To[int64](1)}, d: cancelled("sent 1 times"), want: true,
		},
		"a hook that ends after the signal": {
			scenario: overrunning,
			d:        difference{aspect: "journal c", kubelet: "preStop begin | signal SIGTERM | preStop end | stopped code=0", shim: "preStop begin | signal SIGTERM | stopped code=0"}, want: true,
		},
		"a hook that ends after the signal, in time": {
			scenario: inTime,
			d:        difference{aspect: "journal c", kubelet: "preStop begin | signal SIGTERM | preStop end", shim: "preStop begin | signal SIGTERM"},
		},
		"an end that is missing before the signal": {
			scenario: overrunning,
			d:        difference{aspect: "journal c", kubelet: "preStop begin | preStop end | signal SIGTERM", shim: "preStop begin | signal SIGTERM"},
		},
		"another exit after the signal": {
			scenario: overrunning,
			d:        difference{aspect: "journal c", kubelet: "preStop begin | signal SIGTERM | preStop end | stopped code=0", shim: "preStop begin | signal SIGTERM | stopped code=3"},
		},
		"a resize that the kubelet reported as complete with what was before": {scenario: toResize, d: completed(resources(50, 48), "kubelet"), want: true},
		"a resize that the kubelet reported as complete":                      {scenario: toResize, d: completed(resources(60, 64), "kubelet")},
		"a resize that we reported as complete with what was before":          {scenario: toResize, d: completed(resources(50, 48), "shim")},
		"back-off reported before the kubelet's sync": {
			scenario: scenario{loops: true},
			d:        difference{aspect: "status at waits: c.state.waiting.reason", shim: "CrashLoopBackOff"}, want: true,
		},
		"back-off of a program that does not start": {
			scenario: scenario{loops: true}, want: true,
			d:    difference{aspect: "status at waits: c.state.waiting.reason", kubelet: "RunContainerError", shim: "CrashLoopBackOff"},
			also: difference{aspect: "status at waits: c.state.waiting.message", kubelet: "failed to create containerd task: x", shim: "back-off 10s"},
		},
		"back-off where the kubelet has another trouble": {
			scenario: scenario{loops: true},
			d:        difference{aspect: "status at waits: c.state.waiting.reason", kubelet: "RunContainerError", shim: "CrashLoopBackOff"},
			also:     difference{aspect: "status at waits: c.state.waiting.message", kubelet: "context deadline exceeded", shim: "back-off 10s"},
		},
		"back-off where the kubelet has no image": {
			scenario: scenario{loops: true},
			d:        difference{aspect: "status at waits: c.state.waiting.reason", kubelet: "ErrImagePull", shim: "CrashLoopBackOff"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rest, _ := undeclared(&tc.scenario, []difference{tc.d, tc.also})
			if got := !slices.Contains(rest, tc.d); got != tc.want {
				t.Errorf("declared: %t, want %t", got, tc.want)
			}
		})
	}
}

// Only what hangs on a moment may be there once and not again.
func TestMomentary(t *testing.T) {
	unhealthy := `event Warning Unhealthy "Readiness probe failed: " on spec.containers{c}`
	tests := map[string]struct {
		d    difference
		want bool
	}{
		"a time":                  {difference{aspect: "time in c#0: exit", timed: true}, true},
		"a probe's word":          {difference{aspect: unhealthy, shim: "sent"}, true},
		"another event":           {difference{aspect: `event Normal Killing "x" on spec.containers{c}`, kubelet: "sent 1 times"}, false},
		"an exit":                 {difference{aspect: "runtime exits of c", kubelet: "exit 0", shim: "exit 137"}, false},
		"a word of the container": {difference{aspect: "journal c", kubelet: "a | b", shim: "a"}, false},
		"a status":                {difference{aspect: "status at ready: c.restartCount", kubelet: "0", shim: "1"}, false},
		"the course":              {difference{aspect: "course", kubelet: "", shim: "step \"ready\": did not happen"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.d.momentary(); got != tc.want {
				t.Errorf("momentary: %t, want %t", got, tc.want)
			}
		})
	}
}

// How long a hook takes is read from the template, for every kind of hook.
func TestHookTime(t *testing.T) {
	tests := map[string]struct {
		hook *corev1.LifecycleHandler
		want time.Duration
	}{
		"sleep":            {sleeping(2), 2 * time.Second},
		"exec":             {marked("c", "preStop", 750*time.Millisecond, "exit", "4"), 750 * time.Millisecond},
		"exec, two sleeps": {execute("sleep", "1s", ",", "sleep", "500ms"), 1500 * time.Millisecond},
		"exec, at once":    {execute("append", "sleep.log", "3s"), 0},
		"http":             {calling("/preStop?sleep=1s", 8080), time.Second},
		"http, refused":    {calling("/preStop", 8089), 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := hookTime(tc.hook); got != tc.want {
				t.Errorf("hookTime = %s, want %s", got, tc.want)
			}
		})
	}
}

// The scenarios depend on the seed alone, differ with it, and have usable names.
func TestScenarios(t *testing.T) {
	specs := func(list []scenario) (specs []corev1.PodSpec) {
		for _, s := range list {
			specs = append(specs, s.spec)
		}
		return specs
	}
	if diff := cmp.Diff(specs(generate(7, 30)), specs(generate(7, 30))); diff != "" {
		t.Errorf("the same seed gives other scenarios:\n%s", diff)
	}
	if cmp.Equal(specs(generate(7, 30)), specs(generate(8, 30))) {
		t.Error("another seed gives the same scenarios")
	}
	names := map[string]bool{}
	for _, s := range append(written(), generate(7, 30)...) {
		if names[s.name] || len(validation.IsDNS1123Label(s.name)) > 0 || len(s.name) > 40 {
			t.Errorf("name %q is taken or unusable", s.name)
		}
		names[s.name] = true
		if len(s.steps) == 0 || s.trigger == "" || len(s.spec.Containers) == 0 {
			t.Errorf("scenario %s is not complete", s.name)
		}
		if grace := ptr.Deref(s.grace, 1); grace < 1 || grace > *s.spec.TerminationGracePeriodSeconds {
			t.Errorf("scenario %s has a deletion grace period of %d s", s.name, grace)
		}
	}
	if len(names) < 40 {
		t.Errorf("%d scenarios, want 40", len(names))
	}
}

// The API server refuses a preStop hook that sleeps longer than the grace period.
func TestGeneratedHooksAreAdmissible(t *testing.T) {
	sleeps := 0
	for seed := range uint64(200) {
		for _, s := range generate(seed, 30) {
			for _, c := range slices.Concat(s.spec.InitContainers, s.spec.Containers) {
				if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
					continue
				}
				sleeps++
				if c.Lifecycle.PreStop.Sleep.Seconds > *s.spec.TerminationGracePeriodSeconds {
					t.Errorf("seed %d, %s, container %s sleeps longer than the grace period", seed, s.name, c.Name)
				}
			}
		}
	}
	if sleeps == 0 {
		t.Error("no hook sleeps")
	}
}

func TestProgramFirst(t *testing.T) {
	lines := strings.Split("postStart begin|postStart end|started a|signal|postStart|started b|postStart", "|")
	programFirst(lines)
	want := "started a|postStart begin|postStart end|signal|started b|postStart|postStart"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
