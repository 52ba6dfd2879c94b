// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// slowPulls is a runtime whose pulls continue until they are released.
type slowPulls struct {
	*fakeRuntime
	underWay atomic.Int32
	released chan struct{}
}

func (r *slowPulls) PullImage(context.Context, string, *corev1.Pod, *images.Login) (string, error) {
	r.underWay.Add(1)
	defer r.underWay.Add(-1)
	<-r.released
	return "img", nil
}

// One slow registry does not hold up every workload of the node; the kubelet pulls one
// image at a time.
func TestFourPullsAtOnce(t *testing.T) {
	for want, differences := range map[int32]plan.Differences{4: plan.AllDifferences(), 1: {}} {
		synctest.Test(t, func(t *testing.T) { pullSix(t, differences, want) })
	}
}

func pullSix(t *testing.T, differences plan.Differences, want int32) {
	r := &slowPulls{fakeRuntime: newFakeRuntime(), released: make(chan struct{})}
	e := New(Config{Runtime: r, Events: r.fakeRuntime, Kills: r.fakeRuntime, Differences: differences})
	const pods = 6
	results := make(chan plan.SyncOutcome, pods)
	for i := range pods {
		pod := testPod(30, func(pod *corev1.Pod) { pod.UID = types.UID(rune('a' + i)) })
		go func() { results <- e.SyncPod(t.Context(), startApp(pod, r.fakeRuntime)) }()
	}
	synctest.Wait()
	if got := r.underWay.Load(); got != want {
		t.Errorf("%d pulls at once, want %d", got, want)
	}
	close(r.released)
	for range pods {
		if result := <-results; result.Tried["app"] != (plan.Reason{}) || len(result.Tried) != 1 {
			t.Errorf("result %+v", result)
		}
	}
}

// Pulls that hang, as many as there are places, keep no other namespace waiting for long. It gets one
// place more: what hangs there costs its own.
func TestPullsThatHangCostTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowPulls{fakeRuntime: newFakeRuntime(), released: make(chan struct{})}
		e := New(Config{Runtime: r, Events: r.fakeRuntime, Kills: r.fakeRuntime, Differences: plan.AllDifferences()})
		var pulls sync.WaitGroup
		start := func(namespace string, pods int) {
			for i := range pods {
				pod := testPod(30, func(pod *corev1.Pod) {
					pod.Namespace, pod.UID = namespace, types.UID(fmt.Sprintf("%s-%d", namespace, i))
				})
				pulls.Go(func() { e.SyncPod(t.Context(), startApp(pod, r.fakeRuntime)) })
			}
		}
		start("hangs", parallelPulls+2)
		synctest.Wait()
		start("other", 2)
		time.Sleep(pullPatience - time.Second)
		synctest.Wait()
		if got := r.underWay.Load(); got != parallelPulls {
			t.Errorf("%d pulls at once, want %d", got, parallelPulls)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := r.underWay.Load(); got != parallelPulls+1 {
			t.Errorf("%d pulls at once, want one of the other namespace too", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.underWay.Load(); got != parallelPulls+1 {
			t.Errorf("%d pulls at once an hour later", got)
		}
		close(r.released)
		pulls.Wait()
	})
}

// A pod can have two ready sandboxes: the container of the older one does not
// listen on the address of the newer, which the kubelet asks.
func TestHookAsksItsOwnSandbox(t *testing.T) {
	f := newFakeRuntime()
	for _, s := range [][2]string{{"newer", "10.0.0.2"}, {"older", "10.0.0.1"}} {
		f.Sandboxes = append(f.Sandboxes, &fakeSandbox{SandboxStatus: plan.SandboxStatus{
			ID: s[0], State: plan.SandboxReady, Network: &plan.SandboxNetwork{IP: s[1]},
		}})
	}
	f.running("app", func(c *fakeContainer) { c.SandboxID = "older" })
	for want, differences := range map[string]plan.Differences{"10.0.0.1": plan.AllDifferences(), "10.0.0.2": {}} {
		h := &handlers{runtime: f, differences: differences}
		host, err := h.hookHost(t.Context(), "app-id", &corev1.Pod{}, &corev1.HTTPGetAction{})
		if err != nil || host != want {
			t.Errorf("the hook asks %q (%v), want %s", host, err, want)
		}
	}
}

// The text of the error goes to people: it names the sandbox and nothing else.
func TestHookWithoutAPodIPSaysWhichSandbox(t *testing.T) {
	f := newFakeRuntime()
	f.Sandboxes = []*fakeSandbox{{SandboxStatus: plan.SandboxStatus{ID: "sb", State: plan.SandboxReady}}}
	f.running("app", nil)
	h := &handlers{runtime: f, differences: plan.AllDifferences()}
	_, err := h.hookHost(t.Context(), "app-id", &corev1.Pod{}, &corev1.HTTPGetAction{})
	if want := "failed to find networking container: sandbox sb has no IP"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// How long a hook took that failed is taken off the grace period, and reported.
func TestSecondsOfAFailedHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 3.9, Error: "exit code 1"}}
		f.running("app", nil)
		err := newFakeExecutor(f).KillContainer(t.Context(), testPod(30, withPreStopExec), killApp(testPod(30, withPreStopExec), f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
		if err != nil {
			t.Fatal(err)
		}
		want := v1alpha1.KillPreStop{Handler: "exec", Outcome: v1alpha1.PreStopFailed, Seconds: 3}
		if got := f.lastRecords()[0].PreStop; got == nil || *got != want {
			t.Errorf("preStop %+v, want %+v", got, want)
		}
		if stops := f.stopCalls(); len(stops) != 1 || stops[0].Timeout != 27 || time.Since(f.start) < 3*time.Second {
			t.Errorf("StopContainer: %v", stops)
		}
	})
}

// A runtime that does not know stop signals drops them without a word: the
// container would be stopped by a signal that it may not handle.
func TestDroppedStopSignalIsRefused(t *testing.T) {
	for kept, wantStarted := range map[string]bool{"SIGUSR1": true, "SIGTERM": false, "": false} {
		t.Run("kept "+kept, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Created = func(c *fakeContainer) { c.StopSignal = kept }
				signal := corev1.SIGUSR1
				pod := testPod(30, func(pod *corev1.Pod) {
					pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &signal}
				})
				result := newFakeExecutor(f).SyncPod(t.Context(), startApp(pod, f))
				if started := len(f.ops("StartContainer")) == 1; started != wantStarted || len(f.observed().Containers) == 1 != wantStarted {
					t.Errorf("started %t, containers %v", started, f.observed().Containers)
				}
				want := plan.Reason{}
				if !wantStarted {
					want = plan.Reason{Reason: "CreateContainerConfigError", Message: "the container runtime does not support lifecycle.stopSignal, SIGUSR1 was dropped"}
				}
				if got := result.Tried["app"]; got != want {
					t.Errorf("waiting %+v, want %+v", got, want)
				}
			})
		})
	}
}

// A hook whose time is over is cancelled; the kubelet's runs on beside StopContainer
// and reports its failure when it ends.
func TestOverrunningHook(t *testing.T) {
	for name, test := range map[string]struct {
		differences plan.Differences
		ends        float64
		event       string
	}{
		"production":  {plan.AllDifferences(), 5, preStopCancelledMessage},
		"the kubelet": {plan.Differences{}, 60, "PreStopHook failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"prestop/app": {Seconds: 60, Error: "exit code 1"}}
				f.running("app", nil)
				e := newExecutorWith(f, test.differences)
				pod := testPod(5, withPreStopExec)
				if err := e.KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination})); err != nil {
					t.Fatal(err)
				}
				e.AwaitHooks()
				if stops := f.stopCalls(); len(stops) != 1 || stops[0] != (stopCall{"app", 5, 2}) {
					t.Errorf("StopContainer: %v", stops)
				}
				if ends := f.ops("HookEnd"); len(ends) != 1 || ends[0].Time() != test.ends {
					t.Errorf("the hook ended: %v, want at %g s", ends, test.ends)
				}
				if events := f.ops("Event"); events[len(events)-1].Text("message") != test.event || events[len(events)-1].Time() != test.ends {
					t.Errorf("events: %v", events)
				}
			})
		})
	}
}

// A container that runs on after its stop is not dead; the kubelet believes the runtime.
func TestStopThatChangedNothing(t *testing.T) {
	for name, test := range map[string]struct {
		differences plan.Differences
		want        error
	}{
		"production": {plan.AllDifferences(), errRunsOn}, "the kubelet": {plan.Differences{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.running("app", func(c *fakeContainer) { c.RunsOn = true })
				pod := testPod(5, nil)
				err := newExecutorWith(f, test.differences).KillContainer(t.Context(), pod, killApp(pod, f, plan.Kill{Trigger: v1alpha1.TriggerTermination}))
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
			})
		})
	}
}
