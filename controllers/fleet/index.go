// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// Index knows the Share of every NodeWorkload. It is all that the manager remembers of
// them; the watch feeds it, in order.
type Index struct {
	kills *Ledger
	shims *Shims

	mu     sync.RWMutex
	shares shares
	// byWorkload and byNode find the shares of a ManagedWorkload, by its UID, and those of
	// a node. orphans are those that nothing controls, by namespace and workload label.
	byWorkload map[types.UID]shares
	byNode     map[string]shares
	// byNamespace finds the shares of a namespace.
	byNamespace map[string]shares
	orphans     map[types.NamespacedName]shares
	// byRequest finds the shares that a KillRequest is about, by its namespace and name.
	byRequest map[types.NamespacedName]shares
	// seen is the resourceVersion up to which everything is known, "" before the first list.
	seen string
	// listed are the NodeWorkloads that a list had that is not complete yet: it may be broken
	// off, and the next one may not have them.
	listed map[types.UID]bool

	turns    turns
	rollOuts rollOuts

	// revisions finds those that a ManagedWorkload controls, nil without a cache of them.
	revisions func(namespace string, controller types.UID) []v1alpha1.ManagedWorkloadRevision

	// feeding is held while a change is applied and passed on, which keeps changes in order.
	feeding   sync.Mutex
	listeners []func(Change)
	synced    chan struct{}
	log       logr.Logger
}

type shares map[types.NamespacedName]*Share

// Change is one of a NodeWorkload. Old is nil for one that is new, New for one that is gone.
type Change struct {
	Old, New *Share
	// Words: it reports kills that were not reported before.
	Words bool
}

// NewIndex returns an empty index that reports kills to a ledger, and knows from shims how far
// the nodes' clocks are off.
func NewIndex(kills *Ledger, shims *Shims) *Index {
	x := &Index{
		kills: kills, shims: shims, shares: shares{}, byWorkload: map[types.UID]shares{}, byNode: map[string]shares{}, orphans: map[types.NamespacedName]shares{},
		byRequest: map[types.NamespacedName]shares{}, byNamespace: map[string]shares{},
		listed: map[types.UID]bool{}, synced: make(chan struct{}), log: logr.Discard(),
	}
	shims.Listen(x.date)
	return x
}

// Get is the Share of a NodeWorkload, nil if there is none.
func (x *Index) Get(key types.NamespacedName) *Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.shares[key]
}

// Read is the Share of a NodeWorkload that was read past the index. A node's clock may be
// years off, so since when it is ready or late is what the index knows.
func (x *Index) Read(nw *v1alpha1.NodeWorkload) *Share {
	s := ShareOf(nw, nil)
	known := x.Get(s.Key())
	if known == nil || known.UID != s.UID {
		return x.shims.dated(s)
	}
	s.takeTimes(nw, known)
	return s
}

// OfWorkload are the Shares that the ManagedWorkload of that UID controls, in no order.
func (x *Index) OfWorkload(uid types.UID) []*Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.byWorkload[uid]))
}

// Count is how many Shares the ManagedWorkload of that UID controls.
func (x *Index) Count(uid types.UID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byWorkload[uid])
}

// OnNode are the keys of the Shares of a node, in no order.
func (x *Index) OnNode(node string) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byNode[node]))
}

// OfWorkloadOn are the Shares that the ManagedWorkload of that UID controls on these nodes.
func (x *Index) OfWorkloadOn(uid types.UID, nodes []string) []*Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*Share
	for _, node := range nodes {
		for _, s := range x.byNode[node] {
			if s.Workload() == uid {
				found = append(found, s)
			}
		}
	}
	return found
}

// Orphans are the Shares that nothing controls and that are labelled as those of a
// workload, in no order.
func (x *Index) Orphans(namespace, workloadLabel string) []*Share {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Values(x.orphans[types.NamespacedName{Namespace: namespace, Name: workloadLabel}]))
}

// Seen reports whether everything that was written up to a resourceVersion is in the index.
// After an etcd was restored from a backup it may be false for long, so no wait for it may
// be endless.
func (x *Index) Seen(version string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return version == "" || !newer(version, x.seen)
}

// newer reports whether the resourceVersion a is later than b; one that cannot be read is
// never waited for.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Later is the later one of two resourceVersions, either of which may be "".
func Later(a, b string) string {
	if a == "" || b != "" && newer(b, a) {
		return b
	}
	return a
}

// apply notes one change, and that everything up to its resourceVersion is known. A version
// of "" says nothing.
func (x *Index) apply(old, now *Share, version string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(old)
	if now != nil {
		x.put(now)
	}
	x.seen = Later(x.seen, version)
	if now == nil && old != nil && len(x.byWorkload[old.Workload()]) == 0 {
		x.turns.forget(old.Workload())
	}
}

// reset replaces everything.
func (x *Index) reset(all shares, version string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shares, x.byWorkload, x.byNode, x.orphans = make(shares, len(all)), map[types.UID]shares{}, map[string]shares{}, map[types.NamespacedName]shares{}
	x.byRequest, x.byNamespace = map[types.NamespacedName]shares{}, map[string]shares{}
	for _, s := range all {
		x.put(s)
		version = Later(version, s.ResourceVersion)
	}
	x.seen = version // also an earlier one: an etcd may be restored from a backup
}

func (x *Index) put(s *Share) {
	s = x.shims.dated(s)
	x.shares[s.Key()] = s
	file(x.byNode, s.Node, s)
	file(x.byNamespace, s.Namespace, s)
	if uid := s.Workload(); uid != "" {
		file(x.byWorkload, uid, s)
	}
	for _, key := range s.requestKeys() {
		file(x.byRequest, key, s)
	}
	if s.Controller == (Controller{}) {
		file(x.orphans, s.orphanKey(), s)
	}
}

func (x *Index) drop(s *Share) {
	if s == nil {
		return
	}
	delete(x.shares, s.Key())
	unfile(x.byNode, s.Node, s)
	unfile(x.byNamespace, s.Namespace, s)
	for _, key := range s.requestKeys() {
		unfile(x.byRequest, key, s)
	}
	unfile(x.byWorkload, s.Workload(), s)
	unfile(x.orphans, s.orphanKey(), s)
}

func (s *Share) orphanKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[v1alpha1.LabelWorkload]}
}

func file[K comparable](index map[K]shares, key K, s *Share) {
	if index[key] == nil {
		index[key] = shares{}
	}
	index[key][s.Key()] = s
}

func unfile[K comparable](index map[K]shares, key K, s *Share) {
	delete(index[key], s.Key())
	if len(index[key]) == 0 {
		delete(index, key)
	}
}
