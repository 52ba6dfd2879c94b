// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// fixture is a manager on fake time with a prober that answers as the test says.
type fixture struct {
	*Manager
	t     *testing.T
	begin time.Time

	mu      sync.Mutex
	answers map[kind]func(n int) (outcome, error) // n counts from 1
	calls   map[kind][]string                     // "id@seconds since begin"
	took    time.Duration
	changes int
	events  []string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, begin: time.Now(), answers: map[kind]func(int) (outcome, error){}, calls: map[kind][]string{}}
	f.Manager = newManager(t.Context(), f, f, func(types.UID) { f.mu.Lock(); f.changes++; f.mu.Unlock() }, time.Now().Add(-time.Hour))
	t.Cleanup(f.Close)
	return f
}

func (f *fixture) probe(ctx context.Context, t target) (outcome, error) {
	f.mu.Lock()
	f.calls[t.kind] = append(f.calls[t.kind], fmt.Sprintf("%s@%v", t.id, time.Since(f.begin).Seconds()))
	n, answer, took := len(f.calls[t.kind]), f.answers[t.kind], f.took
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return outcome{state: unknown}, ctx.Err()
	case <-time.After(took):
	}
	if answer == nil {
		return outcome{state: succeeded}, nil
	}
	return answer(n)
}

func (f *fixture) Event(_ *corev1.Pod, fieldPath, eventtype, reason, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, strings.Join([]string{fieldPath, eventtype, reason, message}, " "))
}

// after advances time and compares the probes that were run so far.
func (f *fixture) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fixture) wantCalls(k kind, want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.calls[k]); diff != "" {
		f.t.Errorf("%s probes (-want +got):\n%s", k, diff)
	}
}

func (f *fixture) wantResults(want map[string]plan.ProbeResults) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.Results("uid")); diff != "" {
		f.t.Errorf("results (-want +got):\n%s", diff)
	}
}

func fails(int) (outcome, error) {
	return outcome{state: failed, output: "HTTP probe failed with statuscode: 503", brief: "HTTP 503"}, nil
}

// failsUntil fails before the n-th call.
func failsUntil(n int) func(int) (outcome, error) {
	return func(call int) (outcome, error) {
		if call < n {
			return fails(call)
		}
		return outcome{state: succeeded}, nil
	}
}

func every(seconds int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: seconds, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
}

func podOf(c corev1.Container) *corev1.Pod {
	c.Name = "c"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid", Name: "p", Namespace: "ns"},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{c}},
	}
}

func sidecarPod(c corev1.Container) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	c.Name, c.RestartPolicy = "c", &always
	pod := podOf(corev1.Container{})
	pod.Spec.Containers[0].Name = "main"
	pod.Spec.InitContainers = []corev1.Container{c}
	return pod
}

func running(id string) *plan.PodStatus {
	return runningSince(id, time.Now())
}

func runningSince(id string, since time.Time) *plan.PodStatus {
	return &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: id, Name: "c", State: plan.ContainerRunning, StartedAt: since}}}
}

func exited(id string, code int32) *plan.PodStatus {
	return &plan.PodStatus{Containers: []plan.ContainerStatus{{ID: id, Name: "c", State: plan.ContainerExited, ExitCode: code}}}
}

func published(id string, started bool) *corev1.PodStatus {
	return &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + id, Started: &started}}}
}

func TestLivenessTicksInThePhaseOfThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		pod := podOf(corev1.Container{LivenessProbe: every(10)})
		f.Update(pod, nil, nil)
		f.after(4 * time.Second)
		f.Update(pod, running("a"), nil)
		f.after(time.Second)
		f.wantCalls(liveness)
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}})
		f.after(20 * time.Second)
		f.wantCalls(liveness, "a@10", "a@20")
	})
}

func TestLivenessFailureHoldsUntilANewContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = fails
		pod := podOf(corev1.Container{LivenessProbe: every(10)})
		f.Update(pod, running("a"), nil)
		f.after(10 * time.Second)
		f.wantCalls(liveness, "a@0", "a@10")
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}})
		f.after(time.Hour)
		f.wantCalls(liveness, "a@0", "a@10", "a@20")
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeFailure}})
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe); got != "3x, HTTP 503" {
			t.Errorf("LastFailure = %q, want 3x, HTTP 503", got)
		}
		if f.changes != 1 {
			t.Errorf("%d changes reported, want 1", f.changes)
		}
		want := "spec.containers{c} Warning Unhealthy Liveness probe failed: HTTP probe failed with statuscode: 503"
		if diff := cmp.Diff([]string{want, want, want}, f.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}

		f.Update(pod, running("b"), nil)
		f.wantResults(map[string]plan.ProbeResults{"b": {Liveness: plan.ProbeSuccess}})
		f.after(10 * time.Second)
		f.wantCalls(liveness, "a@0", "a@10", "a@20", "b@3620")
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe); got != "" {
			t.Errorf("the failure of the old instance is kept: %q", got)
		}
	})
}

func TestRunCountBelongsToAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = fails
		pod := podOf(corev1.Container{LivenessProbe: every(10)})
		f.Update(pod, running("a"), nil)
		f.after(11 * time.Second) // two failures
		f.Update(pod, exited("a", 1), nil)
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeFailure}})
		f.Update(pod, running("b"), nil)
		f.after(20 * time.Second)
		f.wantCalls(liveness, "a@0", "a@10", "b@20", "b@30")
		f.wantResults(map[string]plan.ProbeResults{"b": {Liveness: plan.ProbeSuccess}})
		f.after(10 * time.Second)
		f.wantResults(map[string]plan.ProbeResults{"b": {Liveness: plan.ProbeFailure}})
	})
}

func TestReadinessRunsAtOnceAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[readiness] = failsUntil(2)
		pod := podOf(corev1.Container{ReadinessProbe: every(10)})
		f.Update(pod, nil, nil)
		f.after(4 * time.Second)
		f.Update(pod, running("a"), nil)
		synctest.Wait()
		f.wantCalls(readiness, "a@4")
		f.wantResults(map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeFailure}})
		f.after(10 * time.Second)
		f.wantResults(map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeSuccess}})
		f.after(10 * time.Second)
		f.wantCalls(readiness, "a@4", "a@14", "a@24")
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe); got != "" {
			t.Errorf("a readiness failure kills nothing, but LastFailure is %q", got)
		}
	})
}

func TestStartupComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[startup] = failsUntil(3)
		probe := every(10)
		probe.FailureThreshold = 5
		pod := podOf(corev1.Container{StartupProbe: probe, LivenessProbe: every(10), ReadinessProbe: every(10)})
		f.Update(pod, running("a"), nil)
		f.after(19 * time.Second)
		f.wantCalls(liveness)
		f.wantCalls(readiness)
		f.wantResults(map[string]plan.ProbeResults{"a": {Startup: plan.ProbeUnknown, Liveness: plan.ProbeSuccess, Readiness: plan.ProbeFailure}})
		f.after(12 * time.Second)
		f.wantCalls(startup, "a@0", "a@10", "a@20")
		f.wantCalls(readiness, "a@20", "a@30")
		f.wantCalls(liveness, "a@30")
		f.wantResults(map[string]plan.ProbeResults{"a": {Startup: plan.ProbeSuccess, Liveness: plan.ProbeSuccess, Readiness: plan.ProbeSuccess}})
	})
}

func TestStartupFailureHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[startup] = fails
		f.Update(podOf(corev1.Container{StartupProbe: every(1), LivenessProbe: every(1)}), running("a"), nil)
		f.after(time.Minute)
		f.wantCalls(startup, "a@0", "a@1", "a@2")
		f.wantCalls(liveness)
		f.wantResults(map[string]plan.ProbeResults{"a": {Startup: plan.ProbeFailure, Liveness: plan.ProbeSuccess}})
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerStartupProbe); !strings.HasPrefix(got, "3x, ") {
			t.Errorf("LastFailure = %q, want 3x", got)
		}
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe); got != "" {
			t.Errorf("LastFailure of the liveness probe = %q", got)
		}
	})
}

func TestInitialDelayInWholeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		probe := every(3)
		probe.InitialDelaySeconds = 7
		f.Update(podOf(corev1.Container{LivenessProbe: probe}), running("a"), nil)
		f.after(10 * time.Second)
		f.wantCalls(liveness, "a@9")
	})
}

// A start in a time to come delays a probe no longer than one that has just been.
func TestInitialDelayOfAStartToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		probe := every(3)
		probe.InitialDelaySeconds = 7
		pod := podOf(corev1.Container{LivenessProbe: probe})
		observed := runningSince("a", time.Now().Add(time.Hour))
		observed.Containers[0].State = plan.ContainerCreated
		f.Update(pod, observed, nil)
		f.after(6 * time.Second)
		observed = runningSince("a", time.Now().Add(time.Hour))
		for range 3 {
			f.Update(pod, observed, nil)
			f.after(3 * time.Second)
		}
		f.wantCalls(liveness, "a@15")
	})
}

func TestSlowProbeMakesUpForOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.took = 2500 * time.Millisecond
		f.Update(podOf(corev1.Container{LivenessProbe: every(1)}), running("a"), nil)
		f.after(8 * time.Second)
		f.wantCalls(liveness, "a@0", "a@2.5", "a@5", "a@7.5")
	})
}

// Of the ticks that one very slow probe has missed, the last one is made up for, not
// each of them.
func TestMissedTicksAreNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.took = time.Minute
		f.Update(podOf(corev1.Container{LivenessProbe: every(1)}), running("a"), nil)
		f.after(time.Second)
		f.mu.Lock()
		f.took = 0
		f.mu.Unlock()
		f.after(61500 * time.Millisecond)
		f.wantCalls(liveness, "a@0", "a@60", "a@61", "a@62")
	})
}

// A wall clock that is set after the container was first seen changes nothing about
// its initial delay.
func TestStartIsCountedByTheProcess(t *testing.T) {
	seen := time.Now()
	w := &worker{seen: seen}
	for name, tt := range map[string]struct{ startedAt, want time.Time }{
		"before it was seen": {seen.Add(-5 * time.Second).Round(0), seen.Add(-5 * time.Second)},
		"in a time to come":  {seen.Add(time.Hour).Round(0), seen},
	} {
		got := w.started(container{startedAt: tt.startedAt})
		if !got.Equal(tt.want) || got == got.Round(0) {
			t.Errorf("%s: %v, want %v by the process's own clock", name, got, tt.want)
		}
	}
}

func TestErrorOfTheProberIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = func(int) (outcome, error) {
			return outcome{state: unknown}, fmt.Errorf("run a command: %w", status.Error(codes.Unknown, "no such file"))
		}
		f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(5 * time.Second)
		f.wantCalls(liveness, "a@0", "a@0", "a@0") // three tries
		f.after(time.Hour)
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}})
		if want := "spec.containers{c} Warning Unhealthy Liveness probe errored and resulted in unknown state: rpc error: code = Unknown desc = no such file"; f.events[0] != want {
			t.Errorf("event %q, want %q", f.events[0], want)
		}
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe) + f.LastFailure("uid", "a", v1alpha1.TriggerStartupProbe); got != "" {
			t.Errorf("failures are counted: %q", got)
		}
	})
}

func TestWarningIsASuccessWithAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[readiness] = func(int) (outcome, error) { return outcome{state: warned, output: "elsewhere"}, nil }
		f.Update(podOf(corev1.Container{ReadinessProbe: every(10)}), running("a"), nil)
		f.after(time.Second)
		f.wantResults(map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeSuccess}})
		if diff := cmp.Diff([]string{"spec.containers{c} Warning ProbeWarning Readiness probe warning: elsewhere"}, f.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestRestartedAgent(t *testing.T) {
	started := every(10)
	tests := map[string]struct {
		pod       *corev1.Pod
		since     time.Duration // before the agent's start
		published bool
		want      map[string]plan.ProbeResults
	}{
		"a container from before gets no verdict": {
			podOf(corev1.Container{LivenessProbe: started, ReadinessProbe: started, StartupProbe: started}), 11 * time.Second, true,
			map[string]plan.ProbeResults{},
		},
		"one that started within 10 s does": {
			podOf(corev1.Container{LivenessProbe: started, ReadinessProbe: started}), 9 * time.Second, true,
			map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess, Readiness: plan.ProbeFailure}},
		},
		"a sidecar that had started keeps its startup verdict": {
			sidecarPod(corev1.Container{StartupProbe: started}), 11 * time.Second, true,
			map[string]plan.ProbeResults{"a": {Startup: plan.ProbeSuccess}},
		},
		"a sidecar that had not started has none": {
			sidecarPod(corev1.Container{StartupProbe: started}), 11 * time.Second, false,
			map[string]plan.ProbeResults{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.started = time.Now()
				f.Update(tt.pod, runningSince("a", time.Now().Add(-tt.since)), published("a", tt.published))
				f.wantResults(tt.want)
			})
		})
	}
}

func TestRestartedAgentDoesNotRepeatStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.started = time.Now()
		pod := podOf(corev1.Container{StartupProbe: every(10), LivenessProbe: every(10), ReadinessProbe: every(10)})
		f.Update(pod, runningSince("a", time.Now().Add(-time.Hour)), published("a", true))
		f.after(time.Minute)
		f.wantCalls(startup)
		if n := len(f.calls[liveness]); n != 6 {
			t.Errorf("%d liveness probes in a minute, want 6", n)
		}
		if at := f.calls[liveness][0]; at == "a@0" && f.calls[readiness][0] == "a@0" {
			t.Errorf("both first probes run at once, want them spread over the period")
		}
	})
}

func TestNonRunningContainerFails(t *testing.T) {
	tests := map[string]struct {
		policy corev1.RestartPolicy
		code   int32
		want   map[string]plan.ProbeResults
	}{
		"to be restarted":   {corev1.RestartPolicyAlways, 0, map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeFailure}}},
		"failed for good":   {corev1.RestartPolicyNever, 1, map[string]plan.ProbeResults{}},
		"completed":         {corev1.RestartPolicyOnFailure, 0, map[string]plan.ProbeResults{}},
		"failed, OnFailure": {corev1.RestartPolicyOnFailure, 1, map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeFailure}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				pod := podOf(corev1.Container{ReadinessProbe: every(10)})
				pod.Spec.RestartPolicy = tt.policy
				f.Update(pod, running("a"), nil)
				f.after(time.Second)
				f.Update(pod, exited("a", tt.code), nil)
				f.wantResults(tt.want)
				f.after(time.Hour)
				f.wantCalls(readiness, "a@0")
				f.Update(pod, running("b"), nil) // restarted by something else
				synctest.Wait()
				f.wantCalls(readiness, "a@0", "b@3601")
			})
		})
	}
}

func TestTerminalPodIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Update(podOf(corev1.Container{ReadinessProbe: every(10)}), running("a"), &corev1.PodStatus{Phase: corev1.PodFailed})
		f.after(time.Minute)
		f.wantCalls(readiness)
		f.wantResults(map[string]plan.ProbeResults{})
	})
}

func TestDeletionStopsWhatKills(t *testing.T) {
	all := corev1.Container{LivenessProbe: every(10), ReadinessProbe: every(10)}
	tests := map[string]struct {
		pod          *corev1.Pod
		stop         func(f *fixture, pod *corev1.Pod)
		wantLiveness []string
		want         map[string]plan.ProbeResults
	}{
		"reported": {
			podOf(all), func(f *fixture, _ *corev1.Pod) { f.StopLivenessAndStartup("uid") },
			[]string{"a@0"}, map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeSuccess}},
		},
		"seen in the pod": {
			podOf(all), func(f *fixture, pod *corev1.Pod) {
				pod = pod.DeepCopy()
				pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				f.Update(pod, runningSince("a", f.begin), nil)
			},
			[]string{"a@0"}, map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeSuccess}},
		},
		"reported, and updated later": {
			podOf(all), func(f *fixture, pod *corev1.Pod) {
				f.StopLivenessAndStartup("uid")
				f.Update(pod, runningSince("a", f.begin), nil)
			},
			[]string{"a@0"}, map[string]plan.ProbeResults{"a": {Readiness: plan.ProbeSuccess}},
		},
		"a sidecar is probed on": {
			sidecarPod(all), func(f *fixture, _ *corev1.Pod) { f.StopLivenessAndStartup("uid") },
			[]string{"a@0", "a@10"}, map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess, Readiness: plan.ProbeSuccess}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.Update(tt.pod, running("a"), nil)
				f.after(5 * time.Second)
				tt.stop(f, tt.pod)
				f.after(10 * time.Second)
				f.wantCalls(liveness, tt.wantLiveness...)
				f.wantCalls(readiness, "a@0", "a@10")
				f.wantResults(tt.want)
			})
		})
	}
}

func TestChangedProbeTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = fails
		f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(15 * time.Second) // two failures
		f.Update(podOf(corev1.Container{LivenessProbe: every(2)}), runningSince("a", f.begin), nil)
		f.after(3 * time.Second)
		f.wantCalls(liveness, "a@0", "a@10", "a@15", "a@17")
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}}) // counts again
		f.Update(podOf(corev1.Container{}), runningSince("a", f.begin), nil)
		f.after(time.Minute)
		f.wantCalls(liveness, "a@0", "a@10", "a@15", "a@17")
		f.wantResults(map[string]plan.ProbeResults{})
	})
}

func TestUnchangedProbeKeepsItsTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for range 20 {
			f.Update(podOf(corev1.Container{LivenessProbe: every(10), ReadinessProbe: every(10)}), runningSince("a", f.begin), nil)
			f.after(time.Second)
		}
		f.wantCalls(liveness, "a@0", "a@10", "a@20")
		f.wantCalls(readiness, "a@0", "a@10", "a@20")
	})
}

func TestStartupProbeAddedToAStartedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(5 * time.Second)
		f.Update(podOf(corev1.Container{LivenessProbe: every(10), StartupProbe: every(1)}), runningSince("a", f.begin), published("a", true))
		f.after(6 * time.Second)
		f.wantCalls(startup)
		f.wantCalls(liveness, "a@0", "a@10")
		if f.changes != 1 {
			t.Errorf("%d changes reported, want 1: the startup verdict that was given without a probe", f.changes)
		}
	})
}

// A container may be seen between its creation and its start. That is no failure, which would kill
// it as soon as it runs.
func TestContainerThatIsBeingStartedDoesNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[startup] = failsUntil(3)
		c := corev1.Container{StartupProbe: every(1), LivenessProbe: every(1), ReadinessProbe: every(1)}
		c.StartupProbe.FailureThreshold = 10
		pod := podOf(c)
		created := running("a")
		created.Containers[0].State, created.Containers[0].StartedAt = plan.ContainerCreated, time.Time{}
		atFirst := map[string]plan.ProbeResults{"a": {Startup: plan.ProbeUnknown, Liveness: plan.ProbeSuccess, Readiness: plan.ProbeFailure}}
		f.Update(pod, created, nil)
		f.wantResults(atFirst)
		f.Update(pod, running("a"), nil)
		f.wantResults(atFirst)
		f.after(10 * time.Second)
		f.wantResults(map[string]plan.ProbeResults{"a": {Startup: plan.ProbeSuccess, Liveness: plan.ProbeSuccess, Readiness: plan.ProbeSuccess}})
	})
}

func TestResultOfAnOldInstanceIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[readiness] = failsUntil(2)
		f.took = 5 * time.Second
		pod := podOf(corev1.Container{ReadinessProbe: every(10)})
		pod.Spec.Containers[0].ReadinessProbe.FailureThreshold = 1
		f.Update(pod, running("a"), nil)
		f.after(time.Second)
		f.Update(pod, running("b"), nil)
		f.after(5 * time.Second) // the probe of a has failed meanwhile
		f.wantResults(map[string]plan.ProbeResults{"b": {Readiness: plan.ProbeFailure}})
		f.after(10 * time.Second)
		f.wantResults(map[string]plan.ProbeResults{"b": {Readiness: plan.ProbeSuccess}})
	})
}

// A probe that was replaced while it ran says nothing about its successor: it may
// have asked another port.
func TestResultOfAReplacedProbeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = failsUntil(2)
		f.took = 5 * time.Second
		probed := func(period int32) *corev1.Pod {
			pod := podOf(corev1.Container{LivenessProbe: every(period)})
			pod.Spec.Containers[0].LivenessProbe.FailureThreshold = 1
			return pod
		}
		f.Update(probed(10), running("a"), nil)
		f.after(time.Second)
		f.Update(probed(20), runningSince("a", f.begin), nil)
		f.after(5 * time.Second) // the replaced probe has failed meanwhile
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}})
		if got := f.LastFailure("uid", "a", v1alpha1.TriggerLivenessProbe); got != "" {
			t.Errorf("its failure is kept: %q", got)
		}
		f.after(time.Minute)
		f.wantCalls(liveness, "a@0", "a@5", "a@25", "a@45", "a@65")
		f.wantResults(map[string]plan.ProbeResults{"a": {Liveness: plan.ProbeSuccess}})
	})
}

// slowProber does not notice that it is cancelled.
type slowProber struct{ took time.Duration }

func (p slowProber) probe(context.Context, target) (outcome, error) {
	time.Sleep(p.took)
	return outcome{state: succeeded}, nil
}

// Close returns when no probe runs any more.
func TestCloseWaitsForProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		m := newManager(t.Context(), slowProber{10 * time.Second}, f, func(types.UID) {}, time.Now())
		m.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(time.Second)
		m.Close()
		if took := time.Since(f.begin); took != 10*time.Second {
			t.Errorf("closed after %s, while the probe ran for 10s", took)
		}
	})
}

func TestRemoveAndCloseCancelProbes(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"remove": func(f *fixture) { f.Remove("uid") },
		"close":  func(f *fixture) { f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.took = time.Hour
				f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
				f.after(time.Second)
				end(f)
				f.after(2 * time.Hour)
				f.wantCalls(liveness, "a@0")
				if len(f.events) != 0 || f.changes != 0 {
					t.Errorf("a cancelled probe left events %v and %d changes", f.events, f.changes)
				}
			})
		})
	}
}

func TestUpdateAfterCloseStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Close()
		f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(time.Minute)
		f.wantCalls(liveness)
	})
}

func TestPanicInAProbeIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = func(n int) (outcome, error) {
			if n == 1 {
				panic("broken")
			}
			return outcome{state: succeeded}, nil
		}
		f.Update(podOf(corev1.Container{LivenessProbe: every(10)}), running("a"), nil)
		f.after(15 * time.Second)
		f.wantCalls(liveness, "a@0", "a@10")
	})
}

// A bug in a worker ends neither the process nor the worker, and keeps no lock: other
// pods' probes continue.
func TestPanicInAWorkerIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answers[liveness] = fails
		f.Update(podOf(corev1.Container{LivenessProbe: every(10), ReadinessProbe: every(10)}), running("a"), nil)
		f.after(time.Second)
		f.mu.Lock()
		calls := len(f.calls[liveness])
		f.mu.Unlock()
		w := f.pods["uid"].workers[workerKey{"c", liveness}]
		setContainer := func(c *corev1.Container) *corev1.Container {
			f.Manager.mu.Lock()
			defer f.Manager.mu.Unlock()
			before := w.container
			w.container = c
			return before
		}
		whole := setContainer(nil) // its next tick panics
		f.after(10 * time.Second)
		if f.Results("uid")["a"].Readiness != plan.ProbeSuccess {
			t.Error("another worker does not probe")
		}
		setContainer(whole)
		f.after(30 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.calls[liveness]); n <= calls {
			t.Errorf("%d liveness probes, no more than before the panic", n)
		}
	})
}

// The instance that follows one which this agent saw is its own, also where a clock that
// was set back makes it older than the agent.
func TestNewInstanceAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.started = time.Now()
		pod := podOf(corev1.Container{ReadinessProbe: every(10)})
		f.Update(pod, running("a"), nil)
		f.after(time.Second)
		f.answers[readiness] = fails
		f.Update(pod, runningSince("b", time.Now().Add(-time.Hour)), nil)
		f.wantResults(map[string]plan.ProbeResults{"b": {Readiness: plan.ProbeFailure}})
	})
}

func TestUnknownPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.StopLivenessAndStartup("other")
		f.Remove("other")
		if got := f.Results("other"); got != nil {
			t.Errorf("Results = %v, want nil", got)
		}
		if got := f.LastFailure("other", "a", v1alpha1.TriggerLivenessProbe); got != "" {
			t.Errorf("LastFailure = %q, want none", got)
		}
	})
}
