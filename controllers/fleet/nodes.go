// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/managedworkload/managedworkload/controllers/contain"
)

// Nodes knows all Nodes, as the cache has them. They are shared and must not be changed.
type Nodes struct {
	mu     sync.Mutex
	byName map[string]*corev1.Node
	// sorted are all of them by name, nil when that has to be sorted again.
	sorted    []*corev1.Node
	listeners []func(old, now *corev1.Node)
	// synced reports whether all Nodes are known; nil before they are watched.
	synced func() bool
	log    logr.Logger
}

// NewNodes returns the Nodes of a cluster of which nothing is known yet.
func NewNodes() *Nodes { return &Nodes{byName: map[string]*corev1.Node{}, log: logr.Discard()} }

// Watch notes every Node that a cache sees, as soon as that is started.
func (n *Nodes) Watch(ctx context.Context, nodes cache.Informers) error {
	informer, err := nodes.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: n.see, UpdateFunc: func(_, node any) { n.see(node) }, DeleteFunc: n.miss,
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced, n.log = registration.HasSynced, logr.FromContextOrDiscard(ctx)
	return nil
}

// All are all Nodes by name. The slice is shared, too.
func (n *Nodes) All() []*corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sorted == nil {
		n.sorted = slices.SortedFunc(maps.Values(n.byName), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	}
	return n.sorted
}

// Get is the Node of a name, nil if there is none.
func (n *Nodes) Get(name string) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byName[name]
}

// Source makes a source of a controller's requests out of a function that begins to
// listen. The controller begins when all Nodes are known.
func (n *Nodes) Source(listen func(requestQueue)) source.SyncingSource {
	return &listening{"nodes", n.waitForSync, listen}
}

func (n *Nodes) waitForSync(ctx context.Context) error {
	n.mu.Lock()
	synced := n.synced
	n.mu.Unlock()
	if synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return fmt.Errorf("wait for the nodes: %w", ctx.Err())
	}
	return nil
}

// Listen calls listener for each change from now on, in order: old is nil for a Node that
// came, now for one that went. It must not block.
func (n *Nodes) Listen(listener func(old, now *corev1.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, listener)
}

func (n *Nodes) see(obj any) {
	if node, ok := obj.(*corev1.Node); ok {
		n.Observe(node.Name, node)
	}
}

func (n *Nodes) miss(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if node, ok := obj.(*corev1.Node); ok {
		n.Observe(node.Name, nil)
	}
}

// Observe notes the Node of a name as it is now, nil for none.
func (n *Nodes) Observe(name string, now *corev1.Node) {
	n.mu.Lock()
	old := n.byName[name]
	if now == nil {
		delete(n.byName, name)
	} else {
		n.byName[name] = now
	}
	n.sorted = nil
	listeners, log := n.listeners, n.log
	n.mu.Unlock()
	for _, listener := range listeners {
		contain.Do(log, func() { listener(old, now) })
	}
}
