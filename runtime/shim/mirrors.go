// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/mirror"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podworker"
)

const (
	// mirrorInterval is the time between two looks at the mirrors.
	mirrorInterval = 2 * time.Second
	// looksPerTurn is how often the same part of a report is asked for that has no place for all of it.
	looksPerTurn = 15
)

// mirrors shows static workloads in the API: the manager makes an object for each, as the shim's
// Lease asks, and the shim writes its status. Nothing depends on them.
type mirrors struct {
	static interface {
		List() []*template.Workload
	}
	cached client.Reader
	synced func() bool
	// report has the Lease say what is not as it should be, "" for nothing.
	report func(text string)
	// refused says why a workload has no mirror.
	refused func(message string)
	// show has the status of a workload published again.
	show func(*template.Workload)
	node string
	// statuses are those to write, by publisher.
	statuses  mirrorStatuses
	publisher statusPublisher

	// looks counts those at a report that had no place for all workloads, and saidTooLarge are the workloads that
	// have no place in any. They belong to the goroutine of run.
	looks        int
	saidTooLarge map[types.UID]bool

	mu sync.Mutex
	// seen are the mirrors that are there, by the UID of the static workload.
	seen map[types.UID]podworker.Identity
}

// run looks at the mirrors until the context is done.
func (m *mirrors) run(ctx context.Context) error {
	keepTrying(ctx, mirrorInterval, "mirrors of static workloads", m.look)
	return nil
}

// runStatuses writes statuses into the mirrors until the context is done.
func (m *mirrors) runStatuses(ctx context.Context) error { return m.statuses.run(ctx, m.writeStatus) }

// look compares the mirrors with the workloads.
func (m *mirrors) look(ctx context.Context) error {
	if !m.synced() {
		return nil
	}
	list := &v1alpha1.NodeWorkloadList{}
	if err := m.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NodeWorkloads: %w", err)
	}
	workloads := m.static.List()
	there, report := m.compare(workloads, list.Items)
	fresh := m.note(there)
	for _, w := range workloads {
		if fresh[w.UID] {
			m.show(w)
		}
	}
	m.sayTooLarge(workloads)
	text, err := m.inTurn(report).Encode()
	if err != nil {
		return err
	}
	m.report(text)
	return nil
}

// inTurn moves the workloads of a report that has no place for all of them, a little later each time: the manager may have
// reasons to make no mirror for those that come first.
func (m *mirrors) inTurn(report mirror.Report) mirror.Report {
	_, left, err := report.Fit()
	if err != nil || left == 0 {
		m.looks = 0
		return report
	}
	first := m.looks / looksPerTurn * (len(report.Create) - left) % len(report.Create)
	m.looks++
	report.Create = slices.Concat(report.Create[first:], report.Create[:first])
	return report
}

// sayTooLarge says of each workload once that it is too large to have a mirror.
func (m *mirrors) sayTooLarge(workloads []*template.Workload) {
	said := map[types.UID]bool{}
	for _, w := range workloads {
		if !mirror.Reported(w).TooLarge() {
			continue
		}
		if !m.saidTooLarge[w.UID] {
			m.refused(fmt.Sprintf("Static workload %s/%s runs and is not shown in the API: the names, images and resources of its containers are too long", w.Namespace, w.Name))
		}
		said[w.UID] = true
	}
	m.saidTooLarge = said
}

// compare says which mirrors are there, and what is not as it should be.
func (m *mirrors) compare(workloads []*template.Workload, items []v1alpha1.NodeWorkload) (map[types.UID]podworker.Identity, mirror.Report) {
	there := map[types.UID]podworker.Identity{}
	report := mirror.Report{}
	for _, nw := range m.sorted(workloads, items) {
		if nw.DeletionTimestamp != nil {
			continue
		}
		// Whatever its name is: managers of other versions may choose it otherwise.
		_, another := there[mirror.Of(nw)]
		if w := find(workloads, mirror.Of(nw)); w == nil || w.Namespace != nw.Namespace || another {
			report.Delete = append(report.Delete, mirror.Mirror{Namespace: nw.Namespace, Name: nw.Name, UID: nw.UID})
			continue
		}
		there[mirror.Of(nw)] = podworker.Identity{UID: nw.UID, Namespace: nw.Namespace, Name: nw.Name}
	}
	for _, w := range workloads {
		_, ok := there[w.UID]
		if reported := mirror.Reported(w); !ok && w.DeletionTimestamp == nil && !reported.TooLarge() {
			report.Create = append(report.Create, reported)
		}
	}
	return there, report
}

// sorted are the mirrors of this node, that first which stays where a workload has two mirrors: a cache lists them in any
// order, and reports that name now one and now the other would have both deleted.
func (m *mirrors) sorted(workloads []*template.Workload, items []v1alpha1.NodeWorkload) []*v1alpha1.NodeWorkload {
	rank := func(nw *v1alpha1.NodeWorkload) int {
		if w := find(workloads, mirror.Of(nw)); w != nil && nw.Name == mirror.Name(w.Name, m.node) {
			return 0
		}
		return 1
	}
	sorted := make([]*v1alpha1.NodeWorkload, 0, len(items))
	for i := range items {
		if items[i].Spec.NodeName == m.node && mirror.Is(&items[i]) {
			sorted = append(sorted, &items[i])
		}
	}
	slices.SortFunc(sorted, func(a, b *v1alpha1.NodeWorkload) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return sorted
}

// note keeps which mirrors are there, and returns those that are new.
func (m *mirrors) note(there map[types.UID]podworker.Identity) map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := map[types.UID]bool{}
	for uid, id := range there {
		fresh[uid] = m.seen[uid] != id
	}
	m.seen = there
	return fresh
}

// forget has a mirror shown again when it is seen next.
func (m *mirrors) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, uid)
}

// of is the mirror of a static workload.
func (m *mirrors) of(uid types.UID) (id podworker.Identity, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, there = m.seen[uid]
	return id, there
}

func find(workloads []*template.Workload, uid types.UID) *template.Workload {
	for _, w := range workloads {
		if w.UID == uid {
			return w
		}
	}
	return nil
}

// makeMirrors makes what shows static workloads in the API.
func (s *shim) makeMirrors(context.Context, logr.Logger) error {
	if s.mirrors == nil {
		return nil
	}
	s.mirrors.synced, s.mirrors.report = s.overseer.check.orphans.synced, s.lease.setMirrors
	return nil
}
