// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// exited has a container end, as after a kill; never is one that the runtime could not start.
func exited(in plan.Input, name, id string, never bool) {
	c := status(in, name)
	c.ID, c.State, c.StartedAt = id, plan.ContainerExited, time.Unix(1, 0)
	if never {
		c.StartedAt = time.Time{}
	}
}

// What was ended on request is started whatever the policy says, until an instance that follows
// has started; then the policy counts.
func TestOwedStarts(t *testing.T) {
	t.Parallel()
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure} {
		for name, tc := range map[string]struct {
			id     string
			never  bool
			starts bool
		}{
			"the instance that was ended":            {id: "a-id", starts: true},
			"one that the runtime could not start":   {id: "a-2", never: true, starts: true},
			"one that has started, and ended itself": {id: "a-2"},
		} {
			in := runningInput(policy, "a", "b")
			in.Owed = plan.Owed{"a": "a-id"}
			exited(in, "a", tc.id, tc.never)
			if got := plan.Compute(in); slices.Equal(got.ContainersToStart, []int{0}) != tc.starts || got.KillPod {
				t.Errorf("%s, %s: %+v", policy, name, got)
			}
			if left := in.Owed.Left(plan.SettleInput{Pod: in.Pod, Observed: in.Observed}); (len(left) == 1) != tc.starts {
				t.Errorf("%s, %s: left %v", policy, name, left)
			}
		}
	}
	in := runningInput(corev1.RestartPolicyNever, "a")
	in.Owed = plan.Owed{"a": "a-id", "other": "x"}
	if left := in.Owed.Left(plan.SettleInput{Pod: in.Pod, Observed: in.Observed}); !maps.Equal(left, plan.Owed{"a": "a-id"}) {
		t.Errorf("left %v", left)
	}
	in.Asked = map[string]plan.Asked{"a": askedStop()}
	exited(in, "a", "a-id", false)
	if got := plan.Compute(in); len(got.ContainersToStart) > 0 || got.KillPod {
		t.Errorf("What is kept stopped is started: %+v", got)
	}
}

// In a sandbox that follows, a pod that is never restarted starts only what was ended on request.
func TestOwedInNewSandbox(t *testing.T) {
	t.Parallel()
	in := runningInput(corev1.RestartPolicyNever, "a", "b")
	in.Observed.Sandboxes[0].State = plan.SandboxNotReady
	exited(in, "a", "a-id", false)
	exited(in, "b", "b-id", false)
	if got := plan.Compute(in); got.CreateSandbox {
		t.Errorf("Nothing is due: %+v", got)
	}
	in.Owed = plan.Owed{"a": "a-id"}
	if got := plan.Compute(in); !got.CreateSandbox || !slices.Equal(got.ContainersToStart, []int{0}) {
		t.Errorf("a is due: %+v", got)
	}
	in = runningInput(corev1.RestartPolicyNever, "i", "a", "b")
	in.Observed.Sandboxes[0].State = plan.SandboxNotReady
	exited(in, "a", "a-id", false)
	exited(in, "b", "b-id", false)
	in.Owed = plan.Owed{"a": "a-id"}
	if got := plan.Compute(in); !got.CreateSandbox || !slices.Equal(got.InitContainersToStart, []int{0}) || len(got.ContainersToStart) > 0 {
		t.Errorf("The init container comes first: %+v", got)
	}
	in = runningInput(corev1.RestartPolicyOnFailure, "a")
	in.Observed.Sandboxes[0].State = plan.SandboxNotReady
	exited(in, "a", "a-id", false)
	in.Owed = plan.Owed{"a": "a-id"}
	if got := plan.Compute(in); !got.CreateSandbox || !slices.Equal(got.ContainersToStart, []int{0}) {
		t.Errorf("Its kill was no success: %+v", got)
	}
}

// A start that the runtime cannot make is no end of the request, and waits as any start does.
func TestRestartThatIsNeverStarted(t *testing.T) {
	t.Parallel()
	s := newStory(requestRestart("a")).look()
	s.becomes("a", "a-id", plan.ContainerExited).look().want(t, "InProgress a=InProgress", "a")
	if !maps.Equal(s.out.Owed, plan.Owed{"a": "a-id"}) {
		t.Errorf("due: %v", s.out.Owed)
	}
	s.becomes("a", "a-2", plan.ContainerExited)
	status(s.in, "a").StartedAt = time.Time{}
	s.look().want(t, "InProgress a=InProgress")
	if c := s.out.Status[0].Containers[0]; !maps.Equal(s.out.Owed, plan.Owed{"a": "a-id"}) || c.Message != "waits for the start of another instance" {
		t.Errorf("due: %v, %+v", s.out.Owed, c)
	}

	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := newPod(corev1.RestartPolicyNever, "c")
	c := &pod.Spec.Containers[0]
	r := plan.SyncRequest{Pod: pod, Forgiven: []string{"c1"}, Observed: &plan.PodStatus{Containers: []plan.ContainerStatus{
		{ID: "c2", Name: "c", State: plan.ContainerExited, FinishedAt: now.Add(-time.Second), Hash: plan.HashContainer(c)},
	}}, Backoff: map[string]*plan.Backoff{plan.BackoffKey(pod, c): {Current: 20 * time.Second, LastUpdate: now.Add(-time.Second)}}}
	if _, _, wait := plan.CheckBackoff(&r, c, plan.AllDifferences(), plan.Moment{Wall: now}); wait == nil {
		t.Error("A start that failed is tried again without a pause")
	}
}

// A deadline that passes between the kill and the start ends the request, and not the start.
func TestDeadlineBetweenKillAndStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id    string
		state plan.ContainerState
		never bool
		due   bool
	}{
		"it runs":                       {id: "a-id", state: plan.ContainerRunning},
		"it has ended":                  {id: "a-id", state: plan.ContainerExited, due: true},
		"another one could not start":   {id: "a-2", state: plan.ContainerExited, never: true, due: true},
		"another one runs":              {id: "a-2", state: plan.ContainerRunning},
		"another one has ended already": {id: "a-2", state: plan.ContainerExited},
	} {
		s := newStory(requestRestart("a"))
		s.req.Requests[0].Deadline = new(metav1.NewTime(s.now.Add(time.Minute)))
		s.look().becomes("a", tc.id, tc.state)
		if tc.never {
			status(s.in, "a").StartedAt = time.Time{}
		}
		s.now = s.now.Add(time.Minute)
		s.look().want(t, "Failed a=Failed")
		message := "not done before the deadline"
		if tc.due {
			message += "; another instance is started as soon as that works"
		}
		if got := s.out.Status[0].Containers[0].Message; got != message || (len(s.out.Owed) == 1) != tc.due {
			t.Errorf("%s: %q, due %v", name, got, s.out.Owed)
		}
	}
}

// What was noted holds before anything is looked at, for requests that are still there.
func TestRecallRequests(t *testing.T) {
	t.Parallel()
	stop, restart := requestRestart("a"), requestRestart("b")
	stop.Action, restart.ID, restart.UnreadySeconds = v1alpha1.RequestStop, "2", 60
	s := newStory(stop, restart)
	s.look().becomes("a", "a-id", plan.ContainerExited).look().want(t, "Held a=Held; InProgress b=InProgress", "a")
	got := plan.RecallRequests(s.req.Requests, s.out.Status, nil)
	if held := got.Held["a"]; len(got.Held) != 1 || held != s.out.Held["a"] || got.Asked["a"].Trigger != v1alpha1.TriggerStopRequested {
		t.Errorf("held %v, asked %v", got.Held, got.Asked)
	}
	if got.Unready == nil || *got.Unready != *s.out.Unready || len(got.Asked) != 1 || len(got.Signals)+len(got.Owed) > 0 {
		t.Errorf("%+v", got)
	}
	if got := plan.RecallRequests(nil, s.out.Status, nil); len(got.Held)+len(got.Asked) > 0 || got.Unready != nil {
		t.Errorf("The requests are gone: %+v", got)
	}
	if got := plan.RecallRequests(s.req.Requests, s.out.Status, s.in.Observed); got.Unready == nil {
		t.Error("The instance that is to be killed is ready again")
	}
	s.becomes("b", "b-2", plan.ContainerRunning)
	if got := plan.RecallRequests(s.req.Requests, s.out.Status, s.in.Observed); got.Unready != nil || len(got.Held) != 1 {
		t.Errorf("Another instance runs, and is not ready for the sake of the one before: %+v", got)
	}
}

// The records say what is due of requests that are not over: where the instance of the request
// was killed for one.
func TestOwedByRecords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		phase   v1alpha1.RequestPhase
		id      string
		trigger v1alpha1.KillTrigger
		due     bool
	}{
		"held":                       {v1alpha1.RequestHeld, "a-id", v1alpha1.TriggerStopRequested, true},
		"about to be held":           {v1alpha1.RequestInProgress, "a-id", v1alpha1.TriggerStopRequested, true},
		"a restart":                  {v1alpha1.RequestInProgress, "a-id", v1alpha1.TriggerRestartRequested, true},
		"a request that is over":     {v1alpha1.RequestSucceeded, "a-id", v1alpha1.TriggerRestartRequested, false},
		"held after it ended itself": {v1alpha1.RequestHeld, "a-id", v1alpha1.TriggerLivenessProbe, false},
		"held after a change":        {v1alpha1.RequestHeld, "a-id", v1alpha1.TriggerDefinitionChanged, false},
		"a kill of another instance": {v1alpha1.RequestHeld, "a-1", v1alpha1.TriggerStopRequested, false},
	} {
		noted := []v1alpha1.NodeRequestStatus{{ID: "1", Containers: []v1alpha1.RequestContainerState{{Name: "a", ContainerID: "a-id", Phase: tc.phase}}}}
		kills := []v1alpha1.KillRecord{
			{Container: "b", ContainerID: "a-id", Trigger: v1alpha1.TriggerStopRequested},
			{Container: "a", ContainerID: tc.id, Trigger: tc.trigger, Phase: v1alpha1.KillPhaseDone},
		}
		want := plan.Owed{}
		if tc.due {
			want = plan.Owed{"a": "a-id"}
		}
		if got := plan.OwedByRecords(noted, kills, nil); !maps.Equal(got, want) {
			t.Errorf("%s: due %v, want %v", name, got, want)
		}
	}
}

// A start is due after a kill on request or for a change, and after no other.
func TestOwes(t *testing.T) {
	t.Parallel()
	for trigger, want := range map[v1alpha1.KillTrigger]bool{
		v1alpha1.TriggerRestartRequested: true, v1alpha1.TriggerStopRequested: true,
		v1alpha1.TriggerDefinitionChanged: true, v1alpha1.TriggerResizeRequired: true,
		v1alpha1.TriggerLivenessProbe: false, v1alpha1.TriggerContainerRemoved: false, v1alpha1.TriggerTermination: false,
	} {
		if got := plan.Owes(&v1alpha1.KillRecord{Trigger: trigger}); got != want {
			t.Errorf("%s: %t, want %t", trigger, got, want)
		}
	}
	for message, edit := range map[string]func(*plan.Input){
		"Pod definition changed": func(in *plan.Input) {
			in.Pod.Spec.HostIPC = true
			in.Definitions = plan.Define(in.Pod)
		},
		"Network mode of the pod changed": func(in *plan.Input) { in.Pod.Spec.HostNetwork = true },
		"Pod sandbox is not ready":        func(in *plan.Input) { in.Observed.Sandboxes[0].State = plan.SandboxNotReady },
		"Pod sandbox has no IP address":   func(in *plan.Input) { in.Observed.Sandboxes[0].Network.IP = "" },
	} {
		in := runningInput(corev1.RestartPolicyNever, "a")
		edit(&in)
		actions := plan.Compute(in)
		if actions.Message != message {
			t.Fatalf("%+v, want the message %q", actions, message)
		}
		record := &v1alpha1.KillRecord{Trigger: actions.Trigger, Message: actions.Message}
		if got := plan.Owes(record); got != actions.Redefined {
			t.Errorf("%q: %t, want %t", message, got, actions.Redefined)
		}
	}
}

// Without a checkpoint the records and the status say what a change has killed and what has not
// started since. What may have done its work already is not started again.
func TestOwedForChangesByRecords(t *testing.T) {
	t.Parallel()
	started := metav1.Now()
	ended := func(id string, at metav1.Time) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ContainerID: "containerd://" + id, StartedAt: at}
	}
	waits := &corev1.ContainerStateWaiting{Reason: "CreateContainerError"}
	changed := v1alpha1.KillRecord{Container: "a", ContainerID: "a-id", Trigger: v1alpha1.TriggerDefinitionChanged}
	probe := v1alpha1.KillRecord{Container: "a", ContainerID: "a-2", Trigger: v1alpha1.TriggerLivenessProbe}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		kills  []v1alpha1.KillRecord
		due    bool
	}{
		"it runs, by the status": {status: corev1.ContainerStatus{
			ContainerID: "containerd://a-id", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}, due: true},
		"it has ended": {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended("a-id", started)}}, due: true},
		"its start waits": {status: corev1.ContainerStatus{
			State: corev1.ContainerState{Waiting: waits}, LastTerminationState: corev1.ContainerState{Terminated: ended("a-id", started)},
		}, due: true},
		"another one could not start": {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended("a-2", metav1.Time{})}}, due: true},
		"another one runs": {status: corev1.ContainerStatus{
			ContainerID: "containerd://a-2", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
		"another one has ended": {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended("a-2", started)}}},
		"another one was killed since": {
			status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended("a-3", metav1.Time{})}},
			kills:  []v1alpha1.KillRecord{probe, changed},
		},
	} {
		tc.status.Name = "a"
		if tc.kills == nil {
			tc.kills = []v1alpha1.KillRecord{changed}
		}
		st := &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}}
		if got := plan.OwedByRecords(nil, tc.kills, st); (got["a"] == "a-id") != tc.due || len(got) > 1 {
			t.Errorf("%s: due %v, want %t", name, got, tc.due)
		}
	}
	for _, st := range []*corev1.PodStatus{nil, {}} {
		if got := plan.OwedByRecords(nil, []v1alpha1.KillRecord{changed}, st); len(got) > 0 {
			t.Errorf("The status says nothing, and due is %v", got)
		}
	}
}

// An init container that was killed for its resources starts again, also if it exited with 0.
func TestOwedInitContainer(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{0, 143} {
		in := runningInput(corev1.RestartPolicyNever, "i", "a")
		in.Observed.Containers = in.Observed.Containers[:1]
		exited(in, "i", "i-id", false)
		status(in, "i").ExitCode = code
		in.Owed = plan.Owed{"i": "i-id"}
		if got := plan.Compute(in); !slices.Equal(got.InitContainersToStart, []int{0}) || len(got.ContainersToStart) > 0 || got.KillPod {
			t.Errorf("exit code %d: %+v", code, got)
		}
	}
}
