// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Bounded is a workload that may use only so much of the node's disk.
type Bounded struct {
	Identity
	// Urgent: a template waits for the measurement.
	Urgent bool
}

// Bounded returns the workloads whose disk usage is to be measured, ordered by UID.
func (p *Pool) Bounded() []Bounded {
	var bounded []Bounded
	for _, w := range p.all() {
		if b, ok := w.mem.bounded(); ok {
			bounded = append(bounded, b)
		}
	}
	slices.SortFunc(bounded, func(a, b Bounded) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return bounded
}

// Measured takes what a workload uses of the node's disk, and evicts it if that is more than
// it may. An error says what could not be measured; what could still counts.
func (p *Pool) Measured(uid types.UID, used plan.DiskUsage, err error) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w == nil || !w.mem.measured(used, err) {
		return
	}
	w.wakeUp()
}

// diskWatch is what is known of the disk limits of a workload. A template with a lower limit
// restarts nothing: it counts as running only once what is used was measured under it, or all
// nodes would evict at the same time, whatever a roll-out's budget is.
type diskWatch struct {
	// hash is that of the template that waits for a measurement, "" if none does.
	hash string
	// passed: it was measured, and is within its limits.
	passed bool
	// err is why it could not be measured.
	err string
}

// diskLimits are the limits that count: those that what runs was started with. While it is
// not known what runs, only what all of them have counts. m.mu is held.
func (m *memory) diskLimits() *plan.DiskLimits {
	if m.rec.State != Syncing || m.want.ends() || m.want.pod == nil || m.want.hash == "" {
		return nil
	}
	wanted := plan.DiskLimitsOf(m.want.pod)
	switch {
	case m.rec.TemplateHash == m.want.hash, m.watch.hash == m.want.hash, m.freshDisk():
		return wanted
	case m.rec.DiskLimits == nil:
		return nil // those of what runs are not known
	}
	return wanted.Loosest(m.rec.DiskLimits)
}

// freshDisk says that no template was ever noted to run. m.mu is held.
func (m *memory) freshDisk() bool { return m.rec.DiskLimits == nil && m.rec.TemplateHash == "" }

// noteLostLimits notes the limits of a template that is known from the object's status only, before
// it is left: none if it is not known. m.mu is held.
func (m *memory) noteLostLimits(before desired) {
	if m.rec.DiskLimits != nil || m.rec.TemplateHash == "" {
		return
	}
	m.rec.DiskLimits = &plan.DiskLimits{}
	if before.hash == m.rec.TemplateHash {
		m.rec.DiskLimits = plan.DiskLimitsOf(before.pod)
	}
}

// leaveTemplate notes that something of a template may run, if it is not the one that was
// noted, when another one is wanted. m.mu is held.
func (m *memory) leaveTemplate(before desired) {
	m.watch = diskWatch{}
	m.noteLostLimits(before)
	if before.pod == nil || before.hash == "" || before.hash == m.rec.TemplateHash {
		return
	}
	limits := plan.DiskLimitsOf(before.pod)
	switch {
	case m.freshDisk():
		m.rec.DiskLimits = limits
	case m.rec.DiskLimits != nil:
		m.rec.DiskLimits = limits.Loosest(m.rec.DiskLimits)
	}
}

// withinLimits reports whether a template may be noted to run: it allows all that the one
// before did, or what is used was measured. asks says that a measurement is now waited for.
func (m *memory) withinLimits(d desired) (within, asks bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rec.TemplateHash == d.hash || m.freshDisk() || m.watch.hash == d.hash && m.watch.passed {
		return true, false
	}
	before := cmp.Or(m.rec.DiskLimits, &plan.DiskLimits{})
	if !plan.DiskLimitsOf(d.pod).Tightens(before) {
		return true, false
	}
	if m.want.hash != d.hash || m.watch.hash == d.hash {
		return false, false
	}
	m.watch = diskWatch{hash: d.hash}
	return false, true
}

// bounded reports whether the workload is to be measured.
func (m *memory) bounded() (Bounded, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := m.diskLimits()
	return Bounded{Identity: m.rec.Identity, Urgent: m.watch.hash != "" && !m.watch.passed && m.watch.err == ""}, !limits.None()
}

// measured takes a measurement, and says whether that is news.
func (m *memory) measured(used plan.DiskUsage, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := m.diskLimits()
	if eviction := plan.DecideEviction(limits, used); eviction != nil {
		m.want = m.want.ending(*eviction)
		m.touch()
		return true
	}
	before := m.watch
	if m.watch.hash != "" && m.watch.hash == m.want.hash {
		m.watch.passed, m.watch.err = m.watch.passed || err == nil, ""
		if err != nil && !m.watch.passed {
			m.watch.err = err.Error()
		}
	}
	return m.watch != before
}

// diskCondition says why a template does not count as running yet; nil if it does.
func (m *memory) diskCondition() []metav1.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch.err == "" {
		return nil
	}
	return []metav1.Condition{condition(v1alpha1.ConditionUpdateWaiting, true, v1alpha1.ReasonDiskUsageUnknown,
		fmt.Sprintf("the template has lower limits for the node's disk, and what is used could not be measured: %s", m.watch.err))}
}
