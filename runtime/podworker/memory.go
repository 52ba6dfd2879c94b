// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/text"
)

// memory is what is remembered of one workload: what is wanted of it, what is known
// about it, and how much of that is on the disk and in the API. Its methods lock it,
// change or copy values, and return; they call only pure functions.
type memory struct {
	mu   sync.Mutex
	want desired
	// rec is what a checkpoint holds. Maps and slices in it are replaced, never
	// changed, so that copies of it may be read without the lock.
	rec Checkpoint
	// killError is why a kill fails, "" if none does.
	killError string
	// published and disk are what has reached the API and the disk.
	published publication
	disk      disk
	// watch is what disk limits wait for.
	watch diskWatch
	// keeps is the pod by which a sandbox that waits is kept, nil without one.
	keeps *corev1.Pod
	// released: what has ended has no volumes and no cgroup any more.
	released bool
}

func newMemory(id Identity, bootID string) *memory {
	return &memory{rec: Checkpoint{Identity: id, State: Syncing, BootID: bootID}}
}

// take returns what is wanted and marks it as seen.
func (m *memory) take() desired {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.want.taken = m.want.version
	return m.want
}

// peek returns what is wanted.
func (m *memory) peek() desired {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

// changed says that something new is wanted since the last take.
func (m *memory) changed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want.version != m.want.taken
}

// demand replaces what is wanted by what next makes of it, and says whether that is
// news.
func (m *memory) demand(next func(desired) desired) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.want
	m.want = next(m.want)
	if m.want.version == before.version {
		return false
	}
	if before.hash != m.want.hash {
		m.leaveTemplate(before)
	}
	if m.rec.State == Syncing && before.hash != "" && before.hash != m.want.hash && m.want.hash == m.rec.TemplateHash {
		// It is taken back: what was done of the other one is to be looked at first.
		m.rec.TemplateHash = ""
	}
	m.touch()
	return true
}

// usePod fills in the pod of a workload of which none was ever accepted.
func (m *memory) usePod(pod *corev1.Pod) desired {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.want.pod = pod
	if m.want.shown == nil {
		m.want.shown = pod
	}
	m.touch()
	return m.want
}

// state is how far the life of the workload has come.
func (m *memory) state() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.State
}

// advance applies the transition function.
func (m *memory) advance(f stateInput) (before, after State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.rec.State
	m.rec.State = before.next(f)
	if m.rec.State != before {
		m.touch()
		m.disk.stated = m.disk.revision
	}
	return before, m.rec.State
}

// forgo ends the life of a workload of which nothing was ever made here. Its checkpoint
// is not written.
func (m *memory) forgo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rec.State = Removed
	m.disk.final = true
}

// podStatus is the status of the pod that was reported last, nil if there is none.
// It is not changed.
func (m *memory) podStatus() *corev1.PodStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.PodStatus
}

// active is for how long the pod has been active.
func (m *memory) active(now plan.Moment) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seeActivity(now)
	return m.rec.Active.Active(now)
}

// seeActivity notes when the pod became active; m.mu is held.
func (m *memory) seeActivity(now plan.Moment) {
	if m.rec.PodStatus == nil {
		return
	}
	if seen := m.rec.Active.Seen(m.rec.PodStatus.StartTime, now); seen != m.rec.Active {
		m.rec.Active = seen
		m.touch()
	}
}

// actuated is what containers were given since their creation. It is not changed.
func (m *memory) actuated() map[string]plan.Resources {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.Actuated
}

func (m *memory) keepActuated(given map[string]plan.Resources) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(given, m.rec.Actuated) {
		m.touch()
	}
	m.rec.Actuated = given
}

// backoff returns a copy of the back-off entries, by plan.BackoffKey.
func (m *memory) backoff() map[string]*plan.Backoff {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := maps.Clone(m.rec.Backoff)
	if entries == nil {
		entries = map[string]*plan.Backoff{}
	}
	return entries
}

func (m *memory) keepBackoff(entries map[string]*plan.Backoff) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rec.Backoff = entries
	m.touch()
}

// noteTemplate notes that the template that was wanted runs and says whether that is
// news. Nothing of one before runs any more.
func (m *memory) noteTemplate(d desired) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var previous *corev1.Pod
	if m.want.pod != d.pod {
		previous = d.pod
	}
	if m.want.previous != previous {
		m.want.previous = previous
		m.touch()
	}
	if m.rec.TemplateHash == d.hash {
		return false
	}
	m.rec.DiskLimits = plan.DiskLimitsOf(d.pod)
	m.rec.TemplateHash, m.watch = d.hash, diskWatch{}
	m.touch()
	return true
}

// unnoteTemplate notes that what runs is not all of the template that is wanted: of one
// that was taken back half-way nothing may say that it runs.
func (m *memory) unnoteTemplate(d desired) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.seen && m.rec.TemplateHash == d.hash && d.hash != "" {
		m.noteLostLimits(d)
		m.rec.TemplateHash = ""
		m.touch()
	}
}

// runsWanted is whether all that runs is known to be of the template that is wanted.
func (m *memory) runsWanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want.hash != "" && m.want.hash == m.rec.TemplateHash
}

// templateHash is that of the template that runs, "" if none was ever noted.
func (m *memory) templateHash() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rec.TemplateHash
}

// shrinkGrace computes the grace period of the termination, which may only shrink.
func (m *memory) shrinkGrace(t plan.Termination, d desired) plan.Grace {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := plan.Grace{Seconds: m.rec.Grace, Source: m.rec.GraceSource}
	grace := t.Grace(d.pod, before)
	if grace != before {
		m.touch()
	}
	m.rec.Grace, m.rec.GraceSource = grace.Seconds, grace.Source
	m.rec.RequestedBy = d.requestedBy
	return grace
}

// setKillError notes why a kill fails, "" if none does, and says whether that is
// news.
func (m *memory) setKillError(message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	message = text.Cut(message, maxConditionMessage)
	changed := m.killError != message
	m.killError = message
	return changed
}

// killsUnderWay returns the kills that have not ended.
func (m *memory) killsUnderWay() []plan.KillProgress {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []plan.KillProgress
	for _, k := range m.rec.Status.Kills {
		if k.Phase != v1alpha1.KillPhaseDone {
			open = append(open, plan.KillProgress{Record: k, Note: m.rec.KillNotes[k.ID]})
		}
	}
	return open
}

// keep notes by which pod a sandbox that waits is kept, nil for none.
func (m *memory) keep(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keeps = pod
}

// known is what the rest of the shim may know.
func (m *memory) known() Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	var kept []*corev1.Pod
	for _, pod := range []*corev1.Pod{m.want.previous, m.keeps} {
		if pod != nil && pod != m.want.pod {
			kept = append(kept, pod)
		}
	}
	if m.want.next != nil {
		kept = append(kept, m.want.next.pod)
	}
	return Known{
		Identity:   m.rec.Identity,
		Seen:       m.want.seen,
		Deleting:   m.want.deleted,
		Terminated: m.rec.State == Terminated && m.disk.saved >= m.disk.stated,
		Gone:       m.want.gone || m.want.orphan,
		ClusterID:  m.rec.ClusterID,
		Pod:        m.want.pod,
		Kept:       kept,
	}
}
