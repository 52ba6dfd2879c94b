// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// maxConditionMessage is what the API takes as a condition's message, in bytes.
const maxConditionMessage = 32768

// computeStatus computes the status of the pod from what was observed. The
// addresses it finds (the node's, on its network) are those that hooks and
// environment get too, as in the kubelet.
func (w *worker) computeStatus(d desired, observed *plan.PodStatus, terminal bool) corev1.PodStatus {
	now := time.Now()
	st := status.Compute(status.Input{
		Pod:                     d.pod,
		Previous:                w.previous(),
		Observed:                observed,
		Probes:                  w.cfg.Prober.Results(w.id.UID),
		Actuated:                w.given(),
		Waiting:                 w.waiting,
		Terminal:                terminal,
		Evicted:                 w.eviction(d, now),
		Resizing:                w.resizing(d, observed),
		StartupProbesEnded:      w.state() != Syncing,
		AgentStartedAt:          w.cfg.StartedAt,
		Now:                     now,
		HostIPs:                 w.cfg.HostIPs,
		RuntimeName:             w.cfg.RuntimeName,
		RecursiveReadOnlyMounts: w.cfg.RecursiveReadOnly(),
	})
	observed.IPs = observed.IPs[:0:0]
	for _, ip := range st.PodIPs {
		observed.IPs = append(observed.IPs, ip.IP)
	}
	return st
}

// previous is the status computed last, nil if there is none.
func (w *worker) previous() *corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rec.PodStatus
}

// lastPodStatus is the status computed last, for a report when nothing could be
// observed.
func (w *worker) lastPodStatus() corev1.PodStatus {
	if st := w.previous(); st != nil {
		return *st.DeepCopy()
	}
	return corev1.PodStatus{Phase: corev1.PodPending}
}

// report keeps a status and has it published if it is news.
func (w *worker) report(d desired, st corev1.PodStatus, usable Usable) {
	w.mu.Lock()
	before := w.rec.Status
	changed := w.rec.PodStatus == nil || !equality.Semantic.DeepEqual(*w.rec.PodStatus, st)
	w.rec.PodStatus = &st
	w.rec.Status = status.NodeWorkload(status.NodeWorkloadInput{
		Previous:         &before,
		Generation:       d.generation,
		TemplateHash:     w.rec.TemplateHash,
		Pod:              d.reported(),
		Status:           st,
		Conditions:       w.conditions(d, usable),
		Kills:            before.Kills,
		KillCount:        before.KillCount,
		ContainersMayRun: w.rec.State == Syncing || w.rec.State == Terminating,
		Now:              time.Now(),
	})
	news := !equality.Semantic.DeepEqual(before, w.rec.Status)
	w.unpublished = w.unpublished || news
	w.dirty = w.dirty || news || changed
	restarts := w.rec.Status.Restarts - before.Restarts
	w.mu.Unlock()
	if restarts > 0 && before.ObservedGeneration > 0 {
		w.cfg.Metrics.restarts.Add(float64(restarts))
	}
	if news {
		signal(w.publish)
	}
}

// reported is the pod that a status is about.
func (d desired) reported() *corev1.Pod {
	if d.pod != nil {
		return d.pod
	}
	return d.shown
}

// conditions are the shim's own; w.mu is held.
func (w *worker) conditions(d desired, usable Usable) []metav1.Condition {
	accepted := condition(v1alpha1.ConditionTemplateAccepted, true, v1alpha1.ReasonAccepted, "")
	if d.refused != "" {
		accepted = condition(v1alpha1.ConditionTemplateAccepted, false, v1alpha1.ReasonRefusedFields, d.refused)
	}
	conditions := []metav1.Condition{
		accepted,
		condition(v1alpha1.ConditionRuntimeUsable, usable.OK, usable.Reason, usable.Message),
	}
	if w.killError != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionKillFailing, true, failedKillPodReason, w.killError))
	}
	return conditions
}

func condition(kind string, ok bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if ok {
		c.Status = metav1.ConditionTrue
	}
	if c.Reason == "" {
		c.Reason = v1alpha1.ReasonRuntimeReady
	}
	if len(c.Message) > maxConditionMessage {
		c.Message = c.Message[:maxConditionMessage]
	}
	return c
}
