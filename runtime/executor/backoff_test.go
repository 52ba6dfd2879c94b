// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// podLife is a pod that is always restarted, over time.
type podLife struct {
	f       *fakeRuntime
	e       *Executor
	pod     *corev1.Pod
	d       plan.Differences
	backoff map[string]*plan.Backoff
}

func newPodLife(d plan.Differences) *podLife {
	l := &podLife{f: newFakeRuntime(), pod: testPod(2, nil), d: d, backoff: map[string]*plan.Backoff{}}
	l.pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	l.e = newExecutorWith(l.f, d)
	l.f.Images = map[string]bool{"img:1": true}
	l.f.SandboxKills = true
	l.f.Created = func(c *fakeContainer) {
		spec := podspec.Container(l.pod, c.Name)
		given := plan.ResourcesOf(&spec.Resources)
		c.Hash, c.Recorded.Resources = plan.HashContainer(spec), &given
		c.Recorded.RestartedAt = l.pod.Annotations[v1alpha1.AnnotationRestartedAt]
	}
	return l
}

// sync looks, plans and carries out, as a worker does.
func (l *podLife) sync(ctx context.Context) plan.SyncOutcome {
	observed := l.f.observed()
	r := plan.SyncRequest{Pod: l.pod, Observed: observed, Backoff: l.backoff, Actuated: map[string]plan.Resources{}}
	prepared := map[plan.ImageKey]plan.Preparation{}
	for c := range podspec.InitAndMain(l.pod) {
		prepared[plan.ImageKeyOf(c)] = plan.Preparation{Ref: c.Image}
	}
	r.Actions = plan.Compute(plan.Input{Pod: l.pod, Observed: observed, Definitions: plan.Define(l.pod), Prepared: prepared, Differences: l.d})
	out := l.e.SyncPod(ctx, r)
	for _, s := range l.f.Sandboxes {
		if s.Hash == "" {
			s.Hash = plan.HashPod(l.pod)
		}
	}
	return out
}

func (l *podLife) running() *fakeContainer {
	for _, c := range l.f.Containers {
		if c.State == plan.ContainerRunning {
			return c
		}
	}
	return nil
}

// settle syncs until the container runs, and returns how long that took.
func (l *podLife) settle(ctx context.Context) time.Duration {
	begun := time.Now()
	for range 10 {
		out := l.sync(ctx)
		switch {
		case l.running() != nil:
			return time.Since(begun)
		case !out.BackoffUntil.IsZero():
			time.Sleep(time.Until(out.BackoffUntil))
		default:
			time.Sleep(time.Second)
		}
	}
	return time.Since(begun)
}

// crash lets the container crash and start again so many times.
func (l *podLife) crash(ctx context.Context, times int) (last time.Duration) {
	for range times {
		time.Sleep(time.Second)
		l.f.Exit(l.running(), 1)
		last = l.settle(ctx)
	}
	return last
}

func (l *podLife) change() {
	l.pod = l.pod.DeepCopy()
	l.pod.Spec.Containers[0].Env = append(l.pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("N%d", len(l.f.Trace()))})
}

func (l *podLife) resize() {
	l.pod = l.pod.DeepCopy()
	c := &l.pod.Spec.Containers[0]
	c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
}

func (l *podLife) request() {
	l.pod = l.pod.DeepCopy()
	l.pod.Annotations = map[string]string{v1alpha1.AnnotationRestartedAt: time.Now().String()}
}

// A container that waits after a crash waits on when the node's clock is set.
func TestBackoffAfterTheClockWasSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPodLife(plan.AllDifferences())
				now, set := settableClock("boot")
				l.e.clock = now
				l.settle(t.Context())
				l.crash(t.Context(), 1)
				time.Sleep(time.Second)
				l.f.Exit(l.running(), 1)
				for second := range 10 {
					out := l.sync(t.Context())
					if left := out.BackoffUntil.Sub(now.Now()).Round(time.Second); l.running() != nil || left != time.Duration(10-second)*time.Second {
						t.Fatalf("second %d: it waits for %s, want 10s from its exit", second, left)
					}
					set(by)
					time.Sleep(time.Second)
				}
				l.sync(t.Context())
				if l.running() == nil {
					t.Error("it does not start ten seconds after its exit")
				}
			})
		})
	}
}

// What people ask for starts at once, whatever the container has behind it, and is
// forgotten: the crash after it is restarted at once too, and the next one waits 10 s.
// In the kubelet it waits.
func TestDeliberateRestartsDoNotWait(t *testing.T) {
	tests := map[string]struct {
		// live returns how long the last start took.
		live        func(context.Context, *podLife) time.Duration
		wantKubelet time.Duration
	}{
		"well for a minute after crashes, then killed for a changed variable": {func(ctx context.Context, l *podLife) time.Duration {
			l.crash(ctx, 5)
			time.Sleep(time.Minute)
			l.change()
			return l.settle(ctx)
		}, time.Minute},
		"restarts that are requested 3 s apart": {func(ctx context.Context, l *podLife) (took time.Duration) {
			for range 3 {
				time.Sleep(3 * time.Second)
				l.request()
				took += l.settle(ctx)
			}
			return took
		}, 10 * time.Second},
		"a definition that is fixed while the old one waits": {func(ctx context.Context, l *podLife) time.Duration {
			l.crash(ctx, 4)
			l.f.Exit(l.running(), 1)
			if out := l.sync(ctx); out.BackoffUntil.IsZero() {
				panic("it does not wait")
			}
			l.change()
			return l.settle(ctx)
		}, time.Minute},
		"a pod that is defined again after crashes": {func(ctx context.Context, l *podLife) time.Duration {
			l.crash(ctx, 5)
			time.Sleep(time.Minute)
			l.pod = l.pod.DeepCopy()
			l.pod.Spec.Hostname = "another"
			return l.settle(ctx)
		}, time.Minute},
		"a pod that is defined again and whose container does not start at first": {func(ctx context.Context, l *podLife) time.Duration {
			l.crash(ctx, 5)
			time.Sleep(time.Minute)
			l.pod = l.pod.DeepCopy()
			l.pod.Spec.Hostname = "another"
			l.f.Fail("CreateContainer", "app", "Unknown")
			l.sync(ctx)
			l.f.Fail("CreateContainer", "app", "")
			return l.settle(ctx)
		}, time.Minute},
		"a resize whose start fails at first": {func(ctx context.Context, l *podLife) time.Duration {
			l.resize()
			l.f.Fail("CreateContainer", "app", "Unknown")
			for range 3 {
				l.sync(ctx)
			}
			l.f.Fail("CreateContainer", "app", "")
			return l.settle(ctx)
		}, 5 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPodLife(plan.AllDifferences())
				l.settle(t.Context())
				if took := tt.live(t.Context(), l); took >= time.Second {
					t.Errorf("it started after %s, want at once", took)
				}
				if took := l.crash(t.Context(), 1); took != 0 {
					t.Errorf("the first crash after it was restarted after %s, want at once", took)
				}
				if took := l.crash(t.Context(), 1); took != 10*time.Second {
					t.Errorf("the second crash after it was restarted after %s, want 10s", took)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				l := newPodLife(plan.Differences{})
				l.settle(t.Context())
				if took := tt.live(t.Context(), l); took < tt.wantKubelet {
					t.Errorf("in the kubelet it started after %s, want %s or more", took, tt.wantKubelet)
				}
			})
		})
	}
}

// Without changes on purpose, everything starts when it would in the kubelet.
func TestPropertyCrashesWaitAsInTheKubelet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type run struct {
			seconds int
			code    int32
		}
		runs := make([]run, rapid.IntRange(1, 12).Draw(rt, "runs"))
		for i := range runs {
			runs[i] = run{rapid.IntRange(0, 700).Draw(rt, "seconds"), rapid.SampledFrom([]int32{0, 1, 137}).Draw(rt, "code")}
		}
		starts := map[bool][]float64{}
		for _, d := range []plan.Differences{{}, plan.AllDifferences()} {
			rapid.SyncTest(rt, func(rt *rapid.T) {
				l := newPodLife(d)
				l.settle(rt.Context())
				for _, r := range runs {
					time.Sleep(time.Duration(r.seconds) * time.Second)
					l.f.Exit(l.running(), r.code)
					l.settle(rt.Context())
				}
				for _, e := range l.f.ops("StartContainer") {
					starts[d.ForgiveDeliberate] = append(starts[d.ForgiveDeliberate], e.Time())
				}
			})
		}
		if diff := gocmp.Diff(starts[false], starts[true]); diff != "" {
			rt.Fatalf("starts differ (-kubelet +here):\n%s", diff)
		}
	})
}
