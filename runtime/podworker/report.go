// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// maxConditionMessage is what the API takes as a condition's message, in bytes.
const maxConditionMessage = 32768

// view is what a report is computed from.
type view struct {
	status.Input
	// wanted is the pod as the template defines it: its deadline counts, also while Pod
	// is an earlier one that is kept.
	wanted *corev1.Pod
	// syncing: the workload is kept as the template says.
	syncing bool
	// inProgress: resources are on their way to what the template says.
	inProgress bool
	// resize is what was reported last about that.
	resize resize
	// active is for how long the pod has been active.
	active time.Duration
}

// report is a computed status of the pod, with the events that are due once it is in
// the API.
type report struct {
	pod corev1.PodStatus
	// of is the pod that it is about, if that is not what is wanted.
	of     *corev1.Pod
	resize resize
	// oomKilled: the kernel has just killed for memory in the pod's cgroup.
	oomKilled bool
	due       []notice
}

// compute is a pure function: what it returns has happened only when it is kept.
func (v view) compute() report {
	r := report{}
	r.resize, v.Resizing, r.due = v.nextResize()
	if v.Ending == nil {
		v.Ending = plan.PastActiveDeadline(v.wanted, v.Previous, v.active)
	}
	if v.Ending == nil {
		v.Ending = plan.Evicted(v.Previous)
	}
	if v.Ending == nil {
		v.Ending = plan.ShutDown(v.Previous)
	}
	if v.Ending != nil && v.Ending.Reason != "" && (v.Previous == nil || !plan.Ended(v.Previous.Phase)) {
		r.due = append(r.due, notice{
			Type: endingType(v.Ending), Reason: v.Ending.Reason, Message: v.Ending.Message, Annotations: v.Ending.EventAnnotations,
		})
	}
	r.pod = status.Compute(v.Input)
	return r
}

// endingType is the type of the event about an end. (kubelet eviction_manager.go:evictPod)
func endingType(t *plan.Termination) string {
	if t.Reason == plan.ReasonEvicted {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// look computes a report of what was observed. The addresses it finds (the node's, on
// its network) are those that hooks and environment get too, as in the kubelet.
func (s *scope) look(ctx context.Context, d desired, observed *plan.PodStatus, terminal bool) report {
	syncing, now := s.mem.state() == Syncing, s.moment()
	starting := s.cfg.Executor.Starting(s.id.UID)
	r := view{
		Input: status.Input{
			Pod:                     s.probed(d),
			Previous:                s.mem.podStatus(),
			Ending:                  d.asked,
			Observed:                withoutStarts(observed, starting),
			Probes:                  s.cfg.Prober.Results(s.id.UID),
			Actuated:                s.mem.actuated(),
			Waiting:                 s.waitingBeside(observed, starting),
			Conditions:              s.cfg.PodDir.Conditions(ctx, d.pod, observed),
			Terminal:                terminal,
			Differences:             plan.AllDifferences(),
			AgentStartedAt:          s.cfg.StartedAt,
			Now:                     now.Wall,
			Held:                    s.held(syncing),
			Owed:                    s.owed(syncing),
			Unready:                 s.requests.Unready,
			HostIPs:                 s.cfg.HostIPs,
			RuntimeName:             s.cfg.RuntimeName,
			RecursiveReadOnlyMounts: s.cfg.RecursiveReadOnly(),
		},
		wanted:     d.pod,
		syncing:    syncing,
		inProgress: syncing && plan.ResizeInProgress(s.planInput(d, observed)),
		resize:     s.resize,
		active:     s.mem.active(now),
	}.compute()
	if count, ok := s.cfg.PodDir.OOMKills(s.id.UID); ok {
		r.oomKilled = s.oom.see(count, time.Now())
	}
	observed.IPs = observed.IPs[:0:0]
	for _, ip := range r.pod.PodIPs {
		observed.IPs = append(observed.IPs, ip.IP)
	}
	return r
}

// withoutStarts is what was observed, but that a container whose postStart hook has not ended is
// still to be started: it neither runs nor is ready, and nothing probes it, as in the kubelet, which
// reports when the sync has ended.
func withoutStarts(observed *plan.PodStatus, starting map[string]bool) *plan.PodStatus {
	if len(starting) == 0 {
		return observed
	}
	shown := *observed
	shown.Containers = slices.Clone(observed.Containers)
	for i := range shown.Containers {
		if c := &shown.Containers[i]; starting[c.ID] && c.State == plan.ContainerRunning {
			c.State, c.StartedAt = plan.ContainerCreated, time.Time{}
		}
	}
	return &shown
}

// waitingBeside is why containers wait, but those that are being started: for what the start before
// ended with none waits any more.
func (s *scope) waitingBeside(observed *plan.PodStatus, starting map[string]bool) map[string]status.Reason {
	if len(starting) == 0 {
		return s.waiting
	}
	waiting := maps.Clone(s.waiting)
	for i := range observed.Containers {
		if c := &observed.Containers[i]; starting[c.ID] {
			delete(waiting, c.Name)
		}
	}
	return waiting
}

// unseen is a report when nothing could be observed: the status computed last.
func (s *scope) unseen() report {
	if st := s.mem.podStatus(); st != nil {
		return report{pod: *st.DeepCopy(), resize: s.resize}
	}
	return report{pod: corev1.PodStatus{Phase: corev1.PodPending}, resize: s.resize}
}

// report keeps a report and has it published if it is news.
func (s *scope) report(d desired, r report, usable Usable) {
	s.resize = r.resize
	if d.pod != nil {
		r.of = s.probed(d)
	}
	s.cfg.Metrics.reported(s.mem.podStatus(), &r.pod, &s.started)
	news, restarts := s.mem.report(d, r, slices.Concat(conditions(d, usable), s.backoffConditions(d), s.waitConditions(d), s.holdConditions()), s.moment())
	s.cfg.Metrics.restarts.Add(float64(restarts))
	if news {
		signal(s.news)
	}
}

// warn has a Warning event about the whole workload sent.
func (s *scope) warn(reason, message string) {
	s.mem.notify(notice{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
	signal(s.news)
}

// backoffConditions say that the node has restarts wait for longer than the workload asks for.
func (s *scope) backoffConditions(d desired) []metav1.Condition {
	message := plan.RaisedBackoff(d.restartBackoff, s.cfg.MinRestartBackoff)
	if message == "" {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionRestartBackoffRaised, true, v1alpha1.ReasonBelowNodeMinimum, message)}
}

// conditions are those about what is wanted, and about the runtime.
func conditions(d desired, usable Usable) []metav1.Condition {
	accepted := condition(v1alpha1.ConditionTemplateAccepted, true, v1alpha1.ReasonAccepted, "")
	switch {
	case d.refused != "" && d.exceeds != "":
		accepted = condition(v1alpha1.ConditionTemplateAccepted, false, v1alpha1.ReasonRefusedFields, d.refused+"; "+d.exceeds)
	case d.refused != "":
		accepted = condition(v1alpha1.ConditionTemplateAccepted, false, v1alpha1.ReasonRefusedFields, d.refused)
	case d.exceeds != "":
		accepted = condition(v1alpha1.ConditionTemplateAccepted, false, v1alpha1.ReasonAboveNodeBounds, d.exceeds)
	case d.denied != nil:
		accepted = condition(v1alpha1.ConditionTemplateAccepted, false, d.denied.Reason, d.denied.Message)
	}
	return []metav1.Condition{accepted, condition(v1alpha1.ConditionRuntimeUsable, usable.OK, usable.Reason, usable.Message)}
}

func condition(kind string, ok bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if ok {
		c.Status = metav1.ConditionTrue
	}
	if c.Reason == "" {
		c.Reason = v1alpha1.ReasonRuntimeReady
	}
	c.Message = text.Cut(c.Message, maxConditionMessage)
	return c
}
