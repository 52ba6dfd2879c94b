// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/recordings"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// startApp is a sync that starts the container app in a sandbox.
func startApp(pod *corev1.Pod, f *fakeRuntime) plan.SyncRequest {
	return plan.SyncRequest{
		Pod: pod, Observed: f.observed(), Backoff: map[string]*plan.Backoff{},
		Actions: plan.Actions{SandboxID: "sb", ContainersToStart: []int{0}},
	}
}

// reasons are the reasons of the events so far.
func (f *fakeRuntime) reasons() []string {
	var reasons []string
	for _, e := range f.ops("Event") {
		reasons = append(reasons, e.Text("reason"))
	}
	return reasons
}

// A workload's own back-off holds its containers back, not the general one.
func TestBackoffPolicyOfAWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Containers = []*fakeContainer{{ContainerStatus: plan.ContainerStatus{
			ID: "old", Name: "app", State: plan.ContainerExited, FinishedAt: time.Now().Add(-3 * time.Second),
		}}}
		e := newFakeExecutor(f)
		pod := testPod(30, nil)
		in := startApp(pod, f)
		key := plan.BackoffKey(pod, &pod.Spec.Containers[0])
		in.Backoff[key] = &plan.Backoff{Current: 40 * time.Second, LastUpdate: time.Now().Add(-time.Minute)}
		in.BackoffPolicy = plan.BackoffPolicy{Base: time.Second, Max: 4 * time.Second, Expire: 600 * time.Second}
		result := e.SyncPod(t.Context(), in)
		if want := time.Now().Add(time.Second); !result.BackoffUntil.Equal(want) {
			t.Errorf("Back-off until %v, want %v", result.BackoffUntil, want)
		}
		time.Sleep(time.Second)
		if result = e.SyncPod(t.Context(), in); !result.BackoffUntil.IsZero() || !slices.Contains(f.reasons(), "Started") {
			t.Errorf("The container was not started after its wait: %+v", result)
		}
	})
}

func withPostStart(pod *corev1.Pod) {
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"poststart", "app"}}},
	}
}

func TestDeletionDuringPostStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks = map[string]recordings.Hook{"poststart/app": {Seconds: 3600}}
		e := newFakeExecutor(f)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		pod := testPod(30, withPostStart)
		result := e.SyncPod(ctx, startApp(pod, f))
		if got := time.Since(f.start); got != 5*time.Second {
			t.Errorf("the sync took %v: it did not end with the deletion", got)
		}
		if !errors.Is(result.Err, context.DeadlineExceeded) || len(result.Tried)+len(result.Results) > 0 {
			t.Errorf("result: %+v", result)
		}
		if len(f.stopCalls()) > 0 || slices.Contains(f.reasons(), "FailedPostStartHook") {
			t.Error("the container was killed for its hook; its deletion kills it")
		}
		if _, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: f.observed(), Trigger: v1alpha1.TriggerTermination}); err != nil {
			t.Fatal(err)
		}
		if len(f.stopCalls()) != 1 {
			t.Errorf("StopContainer: %v", f.stopCalls())
		}
	})
}

// A container with a postStart hook is said to be starting until the hook has ended, and its kill
// where it failed; one without a hook never is.
func TestStartingUntilTheHookHasEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*corev1.Pod)
		hook  recordings.Hook
		start float64 // how long StartContainer takes, in seconds
		want  []bool  // after 5, 15 and 25 s
	}{
		"a hook": {withPostStart, recordings.Hook{Seconds: 10}, 0, []bool{true, false, false}},
		"a hook that fails, and the preStop hook of its kill": {func(pod *corev1.Pod) {
			withPostStart(pod)
			pod.Spec.Containers[0].Lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"prestop", "app"}}}
		}, recordings.Hook{Seconds: 10, Error: "Unknown"}, 0, []bool{true, true, false}},
		"a slow start": {withPostStart, recordings.Hook{}, 20, []bool{true, true, false}},
		"no hook":      {nil, recordings.Hook{}, 20, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				f.Hooks = map[string]recordings.Hook{"poststart/app": tc.hook, "prestop/app": {Seconds: 10}}
				f.CallSeconds = map[string]float64{"StartContainer": tc.start}
				e := newFakeExecutor(f)
				go e.SyncPod(t.Context(), startApp(testPod(30, tc.edit), f))
				time.Sleep(5 * time.Second)
				for i, want := range tc.want {
					if got := len(e.Starting(testUID)) == 1; got != want {
						t.Errorf("look %d: starting %t, want %t", i, got, want)
					}
					time.Sleep(10 * time.Second)
				}
			})
		})
	}
}

// A start that the runtime has begun when the deletion arrives comes to its end,
// and the deletion's kill finds what came of it. One that hangs is cut off.
func TestDeletionDuringAStart(t *testing.T) {
	tests := map[string]struct {
		seconds       float64
		wantTook      time.Duration
		wantSandboxes int
		wantState     plan.ContainerState // "" if there is to be no container
		wantStops     int
	}{
		"RunPodSandbox":           {seconds: 10, wantTook: 10 * time.Second, wantSandboxes: 1},
		"CreateContainer":         {seconds: 10, wantTook: 10 * time.Second, wantSandboxes: 1, wantState: plan.ContainerCreated},
		"StartContainer":          {seconds: 10, wantTook: 10 * time.Second, wantSandboxes: 1, wantState: plan.ContainerRunning, wantStops: 1},
		"RunPodSandbox, hangs":    {seconds: 3600, wantTook: 33 * time.Second},
		"CreateContainer, hangs":  {seconds: 3600, wantTook: 33 * time.Second, wantSandboxes: 1},
		"StartContainer, hangs":   {seconds: 3600, wantTook: 33 * time.Second, wantSandboxes: 1, wantState: plan.ContainerCreated},
		"StartContainer, at once": {seconds: 0, wantTook: 3 * time.Second, wantSandboxes: 1, wantState: plan.ContainerRunning, wantStops: 1},
	}
	order := []string{"RunPodSandbox", "CreateContainer", "StartContainer"}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call, _, _ := strings.Cut(name, ",")
				f := newFakeRuntime()
				f.CallSeconds = map[string]float64{call: tc.seconds}
				f.Hooks = map[string]recordings.Hook{"poststart/app": {Seconds: 3600}}
				e := newFakeExecutor(f)
				pod := testPod(30, withPostStart)
				in := startApp(pod, f)
				in.Actions.SandboxID, in.Actions.CreateSandbox = "", true
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				result := e.SyncPod(ctx, in)
				if got := time.Since(f.start); got != tc.wantTook {
					t.Errorf("the sync took %v, want %v", got, tc.wantTook)
				}
				cutOff := tc.seconds > 1000 && call == "RunPodSandbox" // which has a result of its own
				if !cutOff && !errors.Is(result.Err, context.DeadlineExceeded) || len(result.Tried) > 0 {
					t.Errorf("result: %+v", result)
				}
				if hooks := len(f.ops("ExecSync")); hooks > 0 && tc.seconds > 0 {
					t.Error("the postStart hook ran")
				}
				for i, op := range order {
					if want := i <= slices.Index(order, call); (len(f.ops(op)) == 1) != want {
						t.Errorf("%s: %v", op, f.ops(op))
					}
				}
				observed := f.observed()
				if len(observed.Sandboxes) != tc.wantSandboxes || (len(observed.Containers) == 1) != (tc.wantState != "") {
					t.Fatalf("observed %+v", observed)
				}
				if tc.wantState != "" && observed.Containers[0].State != tc.wantState {
					t.Errorf("container %+v, want it %s", observed.Containers[0], tc.wantState)
				}
				if _, err := e.KillPod(t.Context(), plan.KillRequest{Pod: pod, Observed: observed, Trigger: v1alpha1.TriggerTermination}); err != nil {
					t.Fatal(err)
				}
				if len(f.stopCalls()) != tc.wantStops || len(f.ops("StopPodSandbox")) != tc.wantSandboxes {
					t.Errorf("StopContainer %v, StopPodSandbox %v", f.stopCalls(), f.ops("StopPodSandbox"))
				}
				if reasons := f.reasons(); slices.Contains(reasons, "Failed") || slices.Contains(reasons, "FailedCreatePodSandBox") || slices.Contains(reasons, "FailedPodSandBoxStatus") {
					t.Errorf("events %v", reasons)
				}
			})
		})
	}
}

// late is a runtime in which the deletion arrives when it is asked for a container.
type late struct {
	*fakeRuntime
	arrive context.CancelFunc
}

func (l late) ContainerStatus(ctx context.Context, id string) (plan.ContainerStatus, error) {
	l.arrive()
	return l.fakeRuntime.ContainerStatus(ctx, id)
}

func TestDeletionBetweenCreationAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Created = func(c *fakeContainer) { c.StopSignal = "SIGUSR1" }
		e := newFakeExecutor(f)
		ctx, cancel := context.WithCancel(t.Context())
		e.runtime = late{f, cancel}
		signal := corev1.SIGUSR1
		pod := testPod(30, func(pod *corev1.Pod) { pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &signal} })
		result := e.SyncPod(ctx, startApp(pod, f))
		if !errors.Is(result.Err, context.Canceled) || len(f.ops("CreateContainer")) != 1 || len(f.ops("StartContainer")) != 0 {
			t.Errorf("error %v, created %v, started %v", result.Err, f.ops("CreateContainer"), f.ops("StartContainer"))
		}
	})
}

func TestFailedPostStartKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Hooks = map[string]recordings.Hook{"poststart/app": {Error: "command terminated with exit code 7"}}
		e := newFakeExecutor(f)
		result := e.SyncPod(t.Context(), startApp(testPod(30, withPostStart), f))
		rec := f.lastRecords()[0]
		if rec.Trigger != v1alpha1.TriggerPostStartHookFailed || rec.Grace.Seconds != 30 || *rec.StopTimeoutSeconds != 30 {
			t.Errorf("record: %+v", rec)
		}
		if got := result.Tried["app"].Reason; got != "PostStartHookError" {
			t.Errorf("waiting reason %q", got)
		}
		want := []string{"Pulling", "Pulled", "Created", "Started", "FailedPostStartHook", "Killing"}
		if diff := gocmp.Diff(want, f.reasons()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestImagePullBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.Fail("PullImage", "img:1", "Unknown")
		e := newFakeExecutor(f)
		var pulls []float64
		for range 50 {
			result := e.SyncPod(t.Context(), startApp(testPod(30, nil), f))
			reason := result.Tried["app"]
			switch reason.Reason {
			case "ErrImagePull":
				pulls = append(pulls, time.Since(f.start).Seconds())
				if reason.Message != "rpc error: code = Unknown desc = runtime exploded" {
					t.Fatalf("message %q", reason.Message)
				}
			case "ImagePullBackOff":
				want := `Back-off pulling image "img:1": ErrImagePull: rpc error: code = Unknown desc = runtime exploded`
				if reason.Message != want {
					t.Fatalf("message %q", reason.Message)
				}
			default:
				t.Fatalf("waiting: %+v", result.Tried)
			}
			time.Sleep(10 * time.Second)
		}
		if diff := gocmp.Diff([]float64{0, 10, 30, 70, 150, 310}, pulls); diff != "" {
			t.Errorf("pulls (-want +got):\n%s", diff)
		}
		if got := f.reasons(); !slices.Contains(got, "BackOff") || !slices.Contains(got, "Failed") {
			t.Errorf("events: %v", got)
		}
	})
}

func TestImageNames(t *testing.T) {
	for image, want := range map[string]struct{ pulled, reason string }{
		"busybox":                 {"busybox:latest", ""},
		"reg.example:5000/app":    {"reg.example:5000/app:latest", ""},
		"reg.example:5000/app:v2": {"reg.example:5000/app:v2", ""},
		"Busybox":                 {"", "InvalidImageName"},
		"a b":                     {"", "InvalidImageName"},
	} {
		t.Run(image, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				e := newFakeExecutor(f)
				pod := testPod(30, func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image })
				result := e.SyncPod(t.Context(), startApp(pod, f))
				if got := result.Tried["app"].Reason; got != want.reason {
					t.Errorf("reason %q, want %q", got, want.reason)
				}
				if pulls := f.ops("PullImage"); want.pulled != "" && (len(pulls) != 1 || pulls[0].Text("image") != want.pulled) {
					t.Errorf("pulls: %v, want %s", pulls, want.pulled)
				}
			})
		})
	}
}

// The plan calls the image absent for both containers; the second finds it there.
func TestSharedImageIsPulledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		pod := testPod(30, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Image = "app"
			second := pod.Spec.Containers[0].DeepCopy()
			second.Name, second.Image, second.ImagePullPolicy = "second", "app:latest", corev1.PullNever
			pod.Spec.Containers = append(pod.Spec.Containers, *second)
		})
		request := startApp(pod, f)
		request.Actions.ContainersToStart = []int{0, 1}
		for i := range pod.Spec.Containers {
			request.Actions.Images = append(request.Actions.Images, plan.DecideImage(&pod.Spec.Containers[i], ""))
		}
		if outcome := newFakeExecutor(f).SyncPod(t.Context(), request); outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		if pulls, starts := f.ops("PullImage"), f.ops("StartContainer"); len(pulls) != 1 || len(starts) != 2 {
			t.Errorf("%d pulls and %d starts, want 1 and 2", len(pulls), len(starts))
		}
	})
}

func TestRestartCountOfLogs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"0.log", "2.log", "11.log.20260101-000000.gz", "x.log", "7.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "99.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		dir  string
		want int
	}{{dir, 12}, {filepath.Join(dir, "missing"), 0}} {
		if got, err := restartCountOfLogs(tc.dir); err != nil || got != tc.want {
			t.Errorf("%s: got %d, %v, want %d", tc.dir, got, err, tc.want)
		}
	}
}

func TestRestartCountWithoutAStatus(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "app"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "app", "4.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		e := newFakeExecutor(f)
		e.logDir = func(*corev1.Pod) string { return dir }
		e.SyncPod(t.Context(), startApp(testPod(30, nil), f))
		if created := f.ops("CreateContainer"); len(created) != 1 || created[0]["attempt"] != 5.0 {
			t.Errorf("created: %v, want attempt 5", created)
		}
	})
}

func TestVolumesDoNotHoldKillsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRuntime()
		f.running("app", nil)
		e := newFakeExecutor(f)
		e.prepare = func(context.Context, *corev1.Pod) error {
			return errors.New(`MountVolume.SetUp failed for volume "v" : hostPath type check failed: /x is not a directory`)
		}
		in := startApp(testPod(30, nil), f)
		in.Actions.ContainersToKill = []plan.Kill{killApp(testPod(30, nil), f, plan.Kill{Trigger: v1alpha1.TriggerLivenessProbe})}
		result := e.SyncPod(t.Context(), in)
		if len(f.stopCalls()) != 1 || len(f.ops("CreateContainer")) != 0 {
			t.Errorf("stops %v, creations %v", f.stopCalls(), f.ops("CreateContainer"))
		}
		last := f.ops("Event")[1]
		if result.Err == nil || last.Text("reason") != "FailedMount" ||
			last.Text("message") != `MountVolume.SetUp failed for volume "v" : hostPath type check failed: /x is not a directory` {
			t.Errorf("error %v, event %v", result.Err, last)
		}
		in.Actions = plan.Actions{SandboxID: "sb"}
		if result := e.SyncPod(t.Context(), in); result.Err != nil {
			t.Errorf("a sync that creates nothing prepared the volumes: %v", result.Err)
		}
	})
}

// unprepared is an error as runtime/poddir makes it.
type unprepared struct {
	error
	reason string
}

func (u unprepared) EventReason() string { return u.reason }

// What keeps a pod from being prepared is told with the kubelet's reason, and nothing is started.
func TestEventOfWhatIsNotPrepared(t *testing.T) {
	const cgroup, directory = "unable to ensure pod container exists: denied", "error making pod data directories: read-only file system"
	tests := map[string]struct {
		err           error
		reason, event string
	}{
		"cgroup":        {unprepared{errors.New(cgroup), "FailedCreatePodContainer"}, "FailedCreatePodContainer", cgroup},
		"directory":     {unprepared{errors.New(directory), "FailedMakePodDataDirectories"}, "FailedMakePodDataDirectories", directory},
		"volume":        {unprepared{errors.New("no volume"), "FailedMount"}, "FailedMount", "no volume"},
		"with a prefix": {fmt.Errorf("on the node: %w", unprepared{errors.New(cgroup), "FailedCreatePodContainer"}), "FailedCreatePodContainer", "on the node: " + cgroup},
		"no reason":     {errors.New("no volume"), "FailedMount", "no volume"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				e := newFakeExecutor(f)
				e.prepare = func(context.Context, *corev1.Pod) error { return test.err }
				result := e.SyncPod(t.Context(), startApp(testPod(30, nil), f))
				if !errors.Is(result.Err, test.err) || len(f.ops("CreateContainer")) != 0 {
					t.Errorf("error %v, creations %v", result.Err, f.ops("CreateContainer"))
				}
				var got []string
				for _, event := range f.ops("Event") {
					got = append(got, event.Text("type")+" "+event.Text("reason")+": "+event.Text("message"))
				}
				if diff := gocmp.Diff([]string{"Warning " + test.reason + ": " + test.event}, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// badConfig is an error as runtime/cri makes it.
type badConfig struct{ error }

func (badConfig) InvalidConfig() bool { return true }

type refusingRuntime struct {
	*fakeRuntime
	err error
}

func (r refusingRuntime) CreateContainer(context.Context, *corev1.Pod, *corev1.Container, plan.CreateOptions) (string, error) {
	return "", r.err
}

func TestCreateErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want plan.Reason
	}{
		"the template's": {fmt.Errorf("x: %w", badConfig{errors.New("no such user")}),
			plan.Reason{Reason: "CreateContainerConfigError", Message: "x: no such user"}},
		"the runtime's": {fmt.Errorf("create container: %w", errorOf("Unknown")),
			plan.Reason{Reason: "CreateContainerError", Message: "runtime exploded"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeRuntime()
				e := newFakeExecutor(f)
				e.runtime = refusingRuntime{f, tc.err}
				result := e.SyncPod(t.Context(), startApp(testPod(30, nil), f))
				if diff := gocmp.Diff(tc.want, result.Tried["app"]); diff != "" {
					t.Error(diff)
				}
				if result.Err == nil {
					t.Errorf("result: %+v", result)
				}
			})
		})
	}
}

func TestOnlyBackoff(t *testing.T) {
	until := time.Now()
	wait := plan.Result{Action: plan.ActionStartContainer, Target: "a", Err: ErrCrashLoopBackOff, BackoffUntil: until.Add(time.Minute)}
	sooner := plan.Result{Action: plan.ActionStartContainer, Target: "b", Err: ErrCrashLoopBackOff, BackoffUntil: until}
	var r syncResult
	r.add(wait)
	r.add(sooner)
	r.add(plan.Result{Action: plan.ActionStartContainer, Target: "c"})
	if out := r.outcome(); out.Err != nil || !out.BackoffUntil.Equal(until) {
		t.Errorf("error %v, until %v", out.Err, out.BackoffUntil)
	}
	if reason, tried := r.Tried["c"]; !tried || reason != (plan.Reason{}) {
		t.Errorf("c was started, but: %v", r.Tried)
	}
	r.add(plan.Result{Action: plan.ActionKillPodSandbox, Err: ErrKillPodSandbox})
	if r.outcome().Err == nil {
		t.Error("a failed kill is more than a back-off")
	}
}
