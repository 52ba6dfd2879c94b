// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/rollout"
)

// memory is what is remembered of one ManagedWorkload between reconciliations. It
// stands in no status, which people may write; a restart of the manager forgets it.
type memory struct {
	uid      types.UID
	progress rollout.Progress
	// waits are since when nodes wait, nil when this manager has just begun.
	waits rollout.Waits
	// paused: it was, and announced are the revisions for which an event named a hold.
	paused    bool
	announced map[rollout.Reason]string
	// hashes are those of the admitted templates of its revisions.
	hashes map[revisionKey]string
	// applied is what all NodeWorkloads had last, nil when this manager has just begun.
	applied *wanted
	// placer is that of the admitted template, nil before one was.
	placer *placement.Placer
	// imposed are the labels that a webhook gives its NodeWorkloads.
	imposed map[string]bool
	// warned is the problem of its grace annotation that an event named last, and held
	// what one said of grace periods that were set by hand.
	warned, held string
	// refused is why a change failed, by node.
	refused map[string]string
	// noRoom are the nodes without a NodeWorkload because a quota has no room for one, and
	// overQuota is what an event said of that last.
	noRoom    map[string]bool
	overQuota string
	// began is when it began, and generation that of the workload then.
	began      time.Time
	generation int64
	// replaced are the last replacements of what was evicted, by node.
	replaced map[string]replacement
	// wrote is what was written last of its NodeWorkloads, and wroteSelf of itself.
	wrote, wroteSelf written
}

// memories are the memories of all ManagedWorkloads.
type memories struct {
	mu    sync.Mutex
	known map[types.NamespacedName]memory
}

// of is the memory of mw, which is empty where the known one is of an earlier object of its name.
func (m *memories) of(mw *v1alpha1.ManagedWorkload) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.known[client.ObjectKeyFromObject(mw)]; known.uid == mw.UID {
		return known
	}
	return memory{
		uid: mw.UID, began: time.Now(), generation: mw.Generation,
		imposed: map[string]bool{}, refused: map[string]string{}, noRoom: map[string]bool{}, replaced: map[string]replacement{},
	}
}

func (m *memories) keep(mw *v1alpha1.ManagedWorkload, known memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[types.NamespacedName]memory{}
	}
	m.known[client.ObjectKeyFromObject(mw)] = known
}

// keepWritten keeps of a memory what was written, also where a reconciliation failed.
func (m *memories) keepWritten(mw *v1alpha1.ManagedWorkload, known memory) {
	kept := m.of(mw)
	kept.wrote, kept.wroteSelf, kept.refused, kept.imposed = known.wrote, known.wroteSelf, known.refused, known.imposed
	kept.noRoom = known.noRoom
	kept.replaced, kept.began, kept.generation = known.replaced, known.began, known.generation
	m.keep(mw, kept)
}

// forgetEarlier forgets an earlier object of the name of mw, and returns its UID, "" for none.
func (m *memories) forgetEarlier(mw *v1alpha1.ManagedWorkload) (uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := client.ObjectKeyFromObject(mw)
	if uid = m.known[name].uid; uid == mw.UID {
		return ""
	}
	delete(m.known, name)
	return uid
}

func (m *memories) forget(name types.NamespacedName) (uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid = m.known[name].uid
	delete(m.known, name)
	return uid
}
