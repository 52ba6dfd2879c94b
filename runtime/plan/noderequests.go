// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// RequestInput is what the progress of KillRequests depends on.
type RequestInput struct {
	Pod      *corev1.Pod
	Observed *PodStatus
	// Status is the pod's as it was computed last, nil without one.
	Status *corev1.PodStatus
	// TemplateHash identifies the template that runs.
	TemplateHash string
	// Requests are those of the spec, and Before is what was noted about them.
	Requests []v1alpha1.NodeRequest
	Before   []v1alpha1.NodeRequestStatus
	// Times are those that were noted with Before.
	Times RequestTimes
	Now   Moment
	// Differences from the kubelet.
	Differences Differences
}

// RequestProgress is how far KillRequests are, and what they ask.
type RequestProgress struct {
	// Status is what is noted about them. It has to be kept before anything is done for them.
	Status []v1alpha1.NodeRequestStatus
	// Times are what waits are counted from, to be kept with Status.
	Times RequestTimes
	// Asked is what they ask of containers, by name.
	Asked map[string]Asked
	// Signals are to be sent, once.
	Signals []SignalRequest
	// Owed are containers whose instance has ended, and that the requests start.
	Owed Owed
	// Unready is why the pod counts as not ready, nil if it does not.
	Unready *Reason
	// Held says why containers are kept stopped, by name.
	Held map[string]Reason
	// Wake is when to look again although nothing happened; 0 is never.
	Wake time.Duration
}

// SignalRequest is a signal to an instance of a container.
type SignalRequest struct {
	RequestID, Container, ContainerID, Signal string
}

// AdvanceRequests decides what KillRequests ask now, given what was noted about them. An
// instance is noted before it is killed: another one in its place is the end of a restart, and
// is never killed for it. A signal whose sending was begun is not sent again.
func AdvanceRequests(in RequestInput) RequestProgress {
	out := RequestProgress{}
	for i := range in.Requests {
		a := advance{RequestInput: in, out: &out, request: &in.Requests[i]}
		if !a.undecided() {
			out.Status = append(out.Status, a.run())
		}
	}
	return out
}

// advance is that of one request.
type advance struct {
	RequestInput
	out     *RequestProgress
	request *v1alpha1.NodeRequest
	status  v1alpha1.NodeRequestStatus
}

// noted is where in Before the request is, -1 where it is new.
func (a *advance) noted() int {
	return slices.IndexFunc(a.Before, func(s v1alpha1.NodeRequestStatus) bool { return s.ID == a.request.ID })
}

// undecided is whether it is not known yet if a new request may begin: which template runs is
// not, while a change is carried out.
func (a *advance) undecided() bool {
	return a.noted() < 0 && a.request.TemplateHash != "" && a.TemplateHash == "" && !a.late()
}

func (a *advance) run() v1alpha1.NodeRequestStatus {
	at := a.noted()
	if at < 0 {
		a.status = v1alpha1.NodeRequestStatus{ID: a.request.ID, Name: a.request.Name, Phase: v1alpha1.RequestPending}
		if refusal := a.refusal(); refusal != "" {
			a.status.Phase, a.status.Message = v1alpha1.RequestFailed, refusal
			return a.status
		}
		for _, name := range a.containers() {
			a.status.Containers = append(a.status.Containers, v1alpha1.RequestContainerState{Name: name, Phase: v1alpha1.RequestPending})
		}
	} else {
		a.status = *a.Before[at].DeepCopy()
	}
	if a.status.Phase == v1alpha1.RequestSucceeded || a.status.Phase == v1alpha1.RequestFailed {
		return a.status
	}
	a.advanceAll()
	a.status.Phase, a.status.Message = sumUp(a.status.Containers)
	return a.status
}

// maxRequestContainers is how many containers a request may be about.
const maxRequestContainers = 64

// refusal is why a request that is new is not carried out, "" if it is.
func (a *advance) refusal() string {
	names := a.containers()
	switch {
	case a.late():
		return "the deadline had passed when the node got the request"
	case a.request.TemplateHash != "" && a.request.TemplateHash != a.TemplateHash:
		return "precondition: the node does not run the revision"
	case len(names) > maxRequestContainers:
		return fmt.Sprintf("there are more than %d containers; name those that are meant", maxRequestContainers)
	}
	for _, name := range names {
		if c := podspec.Container(a.Pod, name); c == nil {
			return fmt.Sprintf("the template has no container %s", name)
		} else if !a.main(name) && !podspec.IsSidecar(c) {
			return fmt.Sprintf("%s is an init container that runs to its end", name)
		}
	}
	return ""
}

func (a *advance) main(name string) bool {
	return slices.ContainsFunc(a.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

// containers are the names that a request is about, in the order of the template where it
// names none.
func (a *advance) containers() []string {
	if len(a.request.Containers) > 0 {
		return a.request.Containers
	}
	names := make([]string, len(a.Pod.Spec.Containers))
	for i := range a.Pod.Spec.Containers {
		names[i] = a.Pod.Spec.Containers[i].Name
	}
	return names
}

// late is whether the deadline has passed, of which the clock is woken.
func (a *advance) late() bool {
	if a.request.Deadline == nil {
		return false
	}
	left := a.request.Deadline.Sub(a.Now.Wall)
	if left > 0 {
		a.wake(left)
	}
	return left <= 0
}

func (a *advance) wake(after time.Duration) {
	if a.out.Wake == 0 || after < a.out.Wake {
		a.out.Wake = after
	}
}

func (a *advance) advanceAll() {
	late := a.late()
	failed, waits := "", false
	for i := range a.status.Containers {
		c := &a.status.Containers[i]
		if c.Phase == v1alpha1.RequestPending && failed != "" && !a.request.IgnoreFailures {
			fail(c, "not begun: container %s failed", failed)
		}
		if !over(c.Phase) && !waits {
			a.advanceOne(c, late)
		}
		if c.Phase == v1alpha1.RequestFailed {
			failed = cmp.Or(failed, c.Name)
		}
		waits = waits || a.request.Ordered && !over(c.Phase) && c.Phase != v1alpha1.RequestHeld
	}
}

func over(phase v1alpha1.RequestPhase) bool {
	return phase == v1alpha1.RequestSucceeded || phase == v1alpha1.RequestFailed
}

func fail(c *v1alpha1.RequestContainerState, format string, args ...any) {
	c.Phase, c.Message = v1alpha1.RequestFailed, fmt.Sprintf(format, args...)
}

func (a *advance) advanceOne(c *v1alpha1.RequestContainerState, late bool) {
	s := a.Observed.Current(c.Name)
	if late && c.Phase != v1alpha1.RequestHeld {
		a.tooLate(c, s)
		return
	}
	signalled := c.Phase == v1alpha1.RequestInProgress && a.request.Action == v1alpha1.RequestSignal
	if signalled {
		fail(c, "the shim ended while it sent the signal, which may have been sent")
		return
	}
	if c.Phase == v1alpha1.RequestPending && !a.begin(c, s) {
		return
	}
	a.sinceBegin(c) // to be noted at the begin
	switch a.request.Action {
	case v1alpha1.RequestSignal:
		a.out.Signals = append(a.out.Signals, SignalRequest{
			RequestID: a.request.ID, Container: c.Name, ContainerID: c.ContainerID, Signal: a.request.Signal,
		})
	case v1alpha1.RequestStop:
		a.stop(c, s)
	default:
		a.restart(c, s)
	}
}

// begin says whether the turn of a container has come, and notes its instance.
func (a *advance) begin(c *v1alpha1.RequestContainerState, s *ContainerStatus) bool {
	if impossible := a.impossible(s); impossible != "" {
		fail(c, "%s", impossible)
		return false
	}
	if a.request.DryRun {
		a.foretell(c, s)
		return false
	}
	if a.request.Action != v1alpha1.RequestStop && !a.request.Force && !a.started(s) {
		c.Message = "waits for the start of the container"
		return false
	}
	c.Phase, c.Message, c.BeginTime = v1alpha1.RequestInProgress, "", new(metav1.NewTime(a.Now.Wall).Rfc3339Copy())
	if s != nil {
		c.ContainerID = s.ID
	}
	return true
}

// impossible is why a request is not begun with a container of which s is the instance, ""
// if it is.
func (a *advance) impossible(s *ContainerStatus) string {
	if id := bareID(a.request.ContainerID); id != "" && (s == nil || s.ID != id) {
		return "precondition: the container is not instance " + id + " any more"
	}
	if s != nil && s.State == ContainerRunning {
		return ""
	}
	switch a.request.Action {
	case v1alpha1.RequestStop:
		return ""
	case v1alpha1.RequestRestart:
		if s != nil && a.request.Force {
			return ""
		}
	case v1alpha1.RequestSignal:
	}
	return "the container does not run"
}

// started is whether the last status says that an instance has started.
func (a *advance) started(s *ContainerStatus) bool {
	st := a.reported(s)
	return st != nil && st.Started != nil && *st.Started
}

// reported is the last status of an instance, nil without one.
func (a *advance) reported(s *ContainerStatus) *corev1.ContainerStatus {
	if a.Status == nil {
		return nil
	}
	for _, list := range [][]corev1.ContainerStatus{a.Status.ContainerStatuses, a.Status.InitContainerStatuses} {
		for i := range list {
			if bareID(list[i].ContainerID) == s.ID {
				return &list[i]
			}
		}
	}
	return nil
}
