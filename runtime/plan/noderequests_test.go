// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// story plays requests against a pod: each look is a step of the worker.
type story struct {
	in  plan.Input
	now time.Time
	req plan.RequestInput
	out plan.RequestProgress
	// set is how far the wall clock was set forward since the story began.
	set time.Duration
	// template is the one that runs, t1 where it is nil.
	template *string
}

// storyBegins is what the wall clock says when a story begins.
var storyBegins = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newStory(requests ...v1alpha1.NodeRequest) *story {
	s := &story{in: runningInput(corev1.RestartPolicyAlways, "i", "s", "a", "b"), now: storyBegins}
	s.req.Requests = requests
	return s
}

// look advances the requests; what the status says is ready and started where it runs.
func (s *story) look() *story {
	st := &corev1.PodStatus{}
	for _, c := range s.in.Observed.Containers {
		up := c.State == plan.ContainerRunning
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: "containerd://" + c.ID, Ready: up, Started: new(up),
		})
	}
	s.req.Pod, s.req.Observed, s.req.Before, s.req.Times, s.req.TemplateHash = s.in.Pod, s.in.Observed, s.out.Status, s.out.Times, "t1"
	s.req.Now = plan.Moment{Wall: s.now, SinceBoot: s.now.Sub(storyBegins) - s.set, BootID: "boot"}
	if s.template != nil {
		s.req.TemplateHash = *s.template
	}
	if s.req.Status == nil {
		s.req.Status = st
		defer func() { s.req.Status = nil }()
	}
	s.out = plan.AdvanceRequests(s.req)
	return s
}

// becomes replaces the current instance of a container.
func (s *story) becomes(name, id string, state plan.ContainerState) *story {
	c := status(s.in, name)
	c.ID, c.State, c.StartedAt = id, state, s.now
	return s
}

func (s *story) phases() string {
	var parts []string
	for _, r := range s.out.Status {
		part := string(r.Phase)
		for _, c := range r.Containers {
			part += " " + c.Name + "=" + string(c.Phase)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func (s *story) want(t *testing.T, phases string, asked ...string) {
	t.Helper()
	if got := s.phases(); got != phases {
		t.Errorf("phases %q, want %q; %+v", got, phases, s.out.Status)
	}
	for _, name := range asked {
		if s.out.Asked[name].Trigger == "" {
			t.Errorf("nothing is asked of %s", name)
		}
	}
	if len(s.out.Asked) != len(asked) {
		t.Errorf("asked %v, want of %v", s.out.Asked, asked)
	}
}

func requestRestart(names ...string) v1alpha1.NodeRequest {
	return v1alpha1.NodeRequest{ID: "1", Name: "k", Action: v1alpha1.RequestRestart, Containers: names, RequestedBy: "alice", Reason: "leaks"}
}

// A restart is asked for until another instance is there, and is done when that is ready.
func TestRestartIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newStory(requestRestart("a"))
	s.look().want(t, "InProgress a=InProgress", "a")
	if a := s.out.Asked["a"]; a.ContainerID != "a-id" || a.RequestedBy != "alice" || a.Cause != "KillRequest k: leaks" {
		t.Errorf("asked %+v", a)
	}
	s.becomes("a", "a-id", plan.ContainerExited).look().want(t, "InProgress a=InProgress", "a")
	s.becomes("a", "a-2", plan.ContainerRunning)
	s.req.Status = &corev1.PodStatus{} // nothing is known of it yet
	s.look().want(t, "InProgress a=InProgress")
	s.req.Status = &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "containerd://a-2"}}}
	s.look().want(t, "InProgress a=InProgress") // it is not ready
	s.req.Status = nil
	s.look().want(t, "Succeeded a=Succeeded")
	s.look().want(t, "Succeeded a=Succeeded")
}

// What was noted before the kill names the instance: a shim that did not see the end of the
// kill kills no other.
func TestRestartAfterACrashOfTheShim(t *testing.T) {
	t.Parallel()
	s := newStory(requestRestart("a")).look()
	s.becomes("a", "a-2", plan.ContainerRunning).look().want(t, "Succeeded a=Succeeded")
}

func TestRestartThatDoesNotStart(t *testing.T) {
	t.Parallel()
	s := newStory(requestRestart("a")).look()
	status(s.in, "a").ExitCode = 3
	s.becomes("a", "a-2", plan.ContainerExited).look().want(t, "Failed a=Failed")
	if m := s.out.Status[0].Message; m != "container a: the new instance ended with exit code 3" {
		t.Error(m)
	}
}

func TestMinStartedSeconds(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	r.MinStartedSeconds = 10
	s := newStory(r).look().becomes("a", "a-2", plan.ContainerRunning).look()
	s.want(t, "InProgress a=InProgress")
	if s.out.Wake != 10*time.Second {
		t.Errorf("wakes after %v", s.out.Wake)
	}
	s.now = s.now.Add(10 * time.Second)
	s.look().want(t, "Succeeded a=Succeeded")
}

// In order, the second container waits for the first; after a failure it is not begun, unless
// failures are ignored.
func TestOrderAndFailurePolicy(t *testing.T) {
	t.Parallel()
	r := requestRestart()
	r.Ordered = true
	s := newStory(r)
	s.look().want(t, "InProgress a=InProgress b=Pending", "a")
	s.becomes("a", "a-2", plan.ContainerExited).look().want(t, "Failed a=Failed b=Failed")

	r.IgnoreFailures = true
	s = newStory(r).look()
	s.becomes("a", "a-2", plan.ContainerExited).look().want(t, "InProgress a=Failed b=InProgress", "b")
	s = newStory(requestRestart()).look()
	s.want(t, "InProgress a=InProgress b=InProgress", "a", "b")
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	id, hash := requestRestart("a"), requestRestart("a")
	id.ContainerID, hash.TemplateHash = "containerd://a-1", "t2"
	newStory(id).look().want(t, "Failed a=Failed")
	newStory(hash).look().want(t, "Failed")
	id.ContainerID, hash.TemplateHash = "containerd://a-id", "t1"
	newStory(id).look().want(t, "InProgress a=InProgress", "a")
	s := newStory(hash)
	s.template = new("")
	s.look().want(t, "") // a change is under way
	s.template = nil
	s.look().want(t, "InProgress a=InProgress", "a")
}

func TestWhatCannotBeDone(t *testing.T) {
	t.Parallel()
	newStory(requestRestart("other")).look().want(t, "Failed")
	newStory(requestRestart("i")).look().want(t, "Failed")
	newStory(requestRestart("s")).look().want(t, "InProgress s=InProgress", "s")
	newStory(requestRestart("a")).becomes("a", "a-id", plan.ContainerExited).look().want(t, "Failed a=Failed")
	force := requestRestart("a")
	force.Force = true
	newStory(force).becomes("a", "a-id", plan.ContainerExited).look().want(t, "InProgress a=InProgress", "a")
}

// A container that is starting is waited for, unless by force.
func TestStartingContainers(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	s := newStory(r)
	s.req.Status = &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: "containerd://a-id", Started: new(false)}}}
	s.look().want(t, "Pending a=Pending")
	s.req.Requests[0].Force = true
	s.look().want(t, "InProgress a=InProgress", "a")
}

// After the deadline nothing is begun, nor asked for.
func TestRequestDeadline(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	s := newStory(r)
	s.req.Requests[0].Deadline = new(metav1.NewTime(s.now.Add(time.Minute)))
	s.look().want(t, "InProgress a=InProgress", "a")
	if s.out.Wake != time.Minute {
		t.Errorf("wakes after %v", s.out.Wake)
	}
	s.now = s.now.Add(time.Minute)
	s.look().want(t, "Failed a=Failed")
	s.out.Status = nil
	s.look().want(t, "Failed")
}

// A container is not ready for a while before it is killed.
func TestUnreadyBeforeTheKill(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	r.UnreadySeconds = 5
	s := newStory(r).look()
	s.want(t, "InProgress a=InProgress")
	if s.out.Unready == nil || s.out.Wake <= 0 {
		t.Errorf("%+v", s.out)
	}
	s.now = s.now.Add(s.out.Wake)
	s.look().want(t, "InProgress a=InProgress", "a")
	if s.out.Unready == nil {
		t.Error("It is ready again before it is killed")
	}
}

// A stop holds the container until the request is gone, whatever instance runs.
func TestStopHolds(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	r.Action = v1alpha1.RequestStop
	s := newStory(r).look()
	s.want(t, "InProgress a=InProgress", "a")
	s.becomes("a", "a-id", plan.ContainerExited).look().want(t, "Held a=Held", "a")
	if held := s.out.Held["a"]; held.Reason != v1alpha1.ReasonStopRequested || held.Message != "stopped by KillRequest k: leaks" {
		t.Errorf("held: %+v", held)
	}
	s.becomes("a", "a-2", plan.ContainerRunning).look().want(t, "InProgress a=InProgress", "a")
	s.req.Requests = nil
	s.look().want(t, "")
}

// A signal is sent once: a shim that ended while it sent it does not send it again.
func TestSignalIsSentOnce(t *testing.T) {
	t.Parallel()
	r := requestRestart("a", "b")
	r.Action, r.Signal = v1alpha1.RequestSignal, "SIGHUP"
	s := newStory(r).look()
	s.want(t, "InProgress a=InProgress b=InProgress")
	if len(s.out.Signals) != 2 || s.out.Signals[0] != (plan.SignalRequest{RequestID: "1", Container: "a", ContainerID: "a-id", Signal: "SIGHUP"}) {
		t.Fatalf("signals %+v", s.out.Signals)
	}
	s.out.Status = plan.Signalled(s.out.Status, s.out.Signals[0], "")
	s.look().want(t, "Failed a=Succeeded b=Failed")
	if len(s.out.Signals) > 0 {
		t.Errorf("sent again: %+v", s.out.Signals)
	}
}

// A dry run asks for nothing, and says by the plan's own decisions what would be done.
func TestDryRun(t *testing.T) {
	t.Parallel()
	r := requestRestart("a")
	r.DryRun, r.GracePeriodSeconds = true, new(int64(9))
	s := newStory(r).look()
	s.want(t, "Succeeded a=Succeeded")
	if c := s.out.Status[0].Containers[0]; c.ContainerID != "a-id" || c.Message != "would be killed: RestartRequested, grace period 9 s (Override), no preStop hook" {
		t.Errorf("%+v", c)
	}
}

// Of two requests the one that stops a container counts, whichever came first.
func TestStopCountsMore(t *testing.T) {
	t.Parallel()
	stop := requestRestart("a")
	stop.ID, stop.Action = "2", v1alpha1.RequestStop
	for _, requests := range [][]v1alpha1.NodeRequest{{requestRestart("a"), stop}, {stop, requestRestart("a")}} {
		s := newStory(requests...).look()
		if got := s.out.Asked["a"].Trigger; got != v1alpha1.TriggerStopRequested {
			t.Errorf("asked: %s", got)
		}
	}
}
