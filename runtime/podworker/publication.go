// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// publication is how much of the status is in the API.
type publication struct {
	// pending says that the status was not written yet, and writing that it is
	// being written right now.
	pending, writing bool
	// recalled: the status is that of an earlier process, and nothing was observed or done since. It is
	// not written, because the API may have a newer one, and containers may have ended.
	recalled bool
	// refused says that the API does not take the status: the end of the workload
	// does not wait for that.
	refused bool
}

// report keeps a status, with the events that are due once it is in the API. It says
// whether there is anything to publish, and how many restarts it adds.
func (m *memory) report(d desired, r report, conditions []metav1.Condition, now plan.Moment) (news bool, restarts int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.rec.Status
	news, m.published.recalled = m.published.recalled, false
	if m.rec.PodStatus == nil || !equality.Semantic.DeepEqual(*m.rec.PodStatus, r.pod) {
		m.touch()
	}
	m.rec.PodStatus = &r.pod
	if plan.AllContainersRestarting(&r.pod) {
		m.rec.Exits = nil // the shim itself removes them, to start over
	}
	m.seeActivity(now)
	m.rec.Status = status.NodeWorkload(status.NodeWorkloadInput{
		Previous:         &before,
		Generation:       d.generation,
		TemplateHash:     m.rec.TemplateHash,
		Pod:              cmp.Or(r.of, d.reported()),
		Status:           r.pod,
		Conditions:       append(conditions, m.troubles()...),
		Kills:            before.Kills,
		KillCount:        before.KillCount,
		OOMKilled:        r.oomKilled,
		ContainersMayRun: m.rec.State == Syncing || m.rec.State == Terminating,
		Now:              now.Wall,
	})
	if !equality.Semantic.DeepEqual(before, m.rec.Status) {
		m.published.pending = true
		m.touch()
		news = true
	}
	if before.ObservedGeneration > 0 {
		restarts = m.rec.Status.Restarts - before.Restarts
	}
	return m.enqueue(r.due) || news, max(0, restarts)
}

// waitConditions are those about what changes wait for that were reported last.
func (m *memory) waitConditions() []metav1.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := meta.FindStatusCondition(m.rec.Status.Conditions, v1alpha1.ConditionUpdateWaiting); c != nil {
		return []metav1.Condition{*c}
	}
	return nil
}

// notify adds events that are due and belong to no status.
func (m *memory) notify(due ...notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.enqueue(due)
}

// enqueue adds to the outbox and says whether there was anything to add.
// m.mu is held.
func (m *memory) enqueue(due []notice) bool {
	if len(due) == 0 {
		return false
	}
	m.rec.Outbox = m.rec.Outbox.add(due...)
	m.touch()
	return true
}

// troubles are conditions about what goes wrong on the node; m.mu is held.
func (m *memory) troubles() []metav1.Condition {
	var conditions []metav1.Condition
	if m.killError != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionKillFailing, true, failedKillPodReason, m.killError))
	}
	if m.disk.trouble != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionCheckpointFailing, true, v1alpha1.ReasonCheckpointNotWritten,
			"a restart of the shim would not know the latest state: "+m.disk.trouble))
	}
	return conditions
}

// overwritten says that the API has another status than the one that was published,
// but for the manager's conditions: it will be written again.
// (kubelet status/status_manager.go:needsReconcile)
func (m *memory) overwritten(current *v1alpha1.NodeWorkloadStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.published.pending || m.published.writing || m.rec.PodStatus == nil {
		return false
	}
	if equality.Semantic.DeepEqual(withoutManagers(current), withoutManagers(&m.rec.Status)) {
		return false
	}
	m.published.pending = true
	return true
}

// withoutManagers returns a status without the conditions that the manager writes.
func withoutManagers(st *v1alpha1.NodeWorkloadStatus) v1alpha1.NodeWorkloadStatus {
	own := *st
	own.Conditions = slices.DeleteFunc(slices.Clone(st.Conditions), func(c metav1.Condition) bool {
		return slices.Contains(v1alpha1.ManagersConditions, c.Type)
	})
	return own
}

// dispatch is a status to write, and the events to send after it.
type dispatch struct {
	status *v1alpha1.NodeWorkloadStatus // nil if it is in the API already
	outbox outbox
}

// beginDispatch returns what is not published yet.
func (m *memory) beginDispatch() dispatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published.writing = true
	if m.published.recalled {
		return dispatch{}
	}
	d := dispatch{outbox: m.rec.Outbox}
	if m.published.pending {
		d.status = m.rec.Status.DeepCopy()
	}
	m.published.pending = false
	return d
}

// endDispatch notes what became of writing the status. The events may be sent once the
// API has the status, has no such object, or does not take it; failed is why the status
// is to be written again.
func (m *memory) endDispatch(d dispatch, err error) (send bool, failed error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published.writing = false
	m.published.refused = errors.Is(err, ErrRefused)
	if err != nil && !errors.Is(err, ErrGone) {
		m.published.pending = true
		failed = err
	}
	if failed != nil && !m.published.refused {
		return false, failed
	}
	if !d.outbox.empty() {
		m.rec.Outbox = m.rec.Outbox.without(d.outbox)
		m.touch()
	}
	return true, failed
}

// flushed says that everything is in the API, or that the API has no such object or
// does not take it.
func (m *memory) flushed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.published
	return (!p.pending || p.refused) && !p.writing && m.rec.Outbox.empty()
}

// hurries says that the workload is on its way to its start or its end.
func (m *memory) hurries() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk.trouble != "" {
		return false // the API is the only place left that remembers
	}
	return m.rec.State == Terminating || (m.rec.State == Syncing && m.rec.Status.Phase == corev1.PodPending)
}
