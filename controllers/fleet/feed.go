// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
	"github.com/managedworkload/managedworkload/internal/informers"
)

// listPage is how many NodeWorkloads are read at once where the API server cannot stream
// them: with templates and statuses of 8 kB they are 4 MB.
const listPage = 500

// Run keeps the index in step with the API server until ctx is done. Initial NodeWorkloads
// are streamed (WatchList) where the API server can, and read in pages where it cannot: of
// each only its Share is kept, as soon as it arrives.
func (x *Index) Run(ctx context.Context, c client.WithWatch) {
	x.log = logr.FromContextOrDiscard(ctx)
	reflector := toolscache.NewReflectorWithOptions(&apiSource{client: c, index: x}, &v1alpha1.NodeWorkload{}, feed{x},
		toolscache.ReflectorOptions{Logger: &x.log, Name: "nodeworkloads", Backoff: informers.Backoff()})
	reflector.RunWithContext(ctx)
}

// apiSource reads NodeWorkloads from the API server.
type apiSource struct {
	client client.WithWatch
	index  *Index
}

// List implements cache.ListerWatcher.
func (s *apiSource) List(metav1.ListOptions) (runtime.Object, error) {
	return nil, fmt.Errorf("list NodeWorkloads without a context")
}

// Watch implements cache.ListerWatcher.
func (s *apiSource) Watch(metav1.ListOptions) (watch.Interface, error) {
	return nil, fmt.Errorf("watch NodeWorkloads without a context")
}

// ListWithContext implements cache.ListerWatcherWithContext. It reads all pages and keeps
// Shares only. The resourceVersion that is asked for is left out: without one the API
// server answers with the latest, and in pages.
func (s *apiSource) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	all := &internalversion.List{}
	options := &client.ListOptions{Limit: listPage}
	for {
		page := &v1alpha1.NodeWorkloadList{}
		if err := s.client.List(ctx, page, options); err != nil {
			return nil, err
		}
		for i := range page.Items {
			all.Items = append(all.Items, s.index.take(&page.Items[i]))
		}
		if page.Continue == "" {
			all.ResourceVersion = page.ResourceVersion
			return all, nil
		}
		options.Continue = page.Continue
	}
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (s *apiSource) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return s.client.Watch(ctx, &v1alpha1.NodeWorkloadList{}, &client.ListOptions{Raw: &options})
}

// feed is the index as a reflector's store. All methods are called by one goroutine, but
// for the transformer.
type feed struct{ *Index }

// Transformer implements cache.TransformingStore: what a reflector keeps while it reads
// the initial objects.
func (f feed) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if nw, ok := obj.(*v1alpha1.NodeWorkload); ok {
			return f.take(nw), nil
		}
		return obj, nil
	}
}

// take is the Share of a NodeWorkload; the kills it reports go to the ledger before
// anything else can know of it.
func (x *Index) take(nw *v1alpha1.NodeWorkload) *Share {
	x.kills.Observe(nw)
	x.mu.Lock()
	x.listed[nw.UID] = true
	x.mu.Unlock()
	share := ShareOf(nw, nil) // an etcd that was restored may have another template of the same generation
	old := x.Get(client.ObjectKeyFromObject(nw))
	if old != nil {
		share.takeTimes(nw, old)
		share.takeEarlier(nw, old)
	}
	x.takeRan(share, nw, old)
	return share
}

// Add implements cache.ReflectorStore.
func (f feed) Add(obj any) error { return f.Update(obj) }

// Update implements cache.ReflectorStore.
func (f feed) Update(obj any) error {
	nw, ok := obj.(*v1alpha1.NodeWorkload)
	if !ok {
		return fmt.Errorf("a %T is no NodeWorkload", obj)
	}
	contain.Do(f.log, func() { f.Index.Observe(nw) })
	return nil
}

// Observe notes a NodeWorkload that is new or has changed.
func (x *Index) Observe(nw *v1alpha1.NodeWorkload) {
	x.feeding.Lock()
	defer x.feeding.Unlock()
	words := x.kills.Observe(nw)
	old := x.Get(client.ObjectKeyFromObject(nw))
	now := ShareOf(nw, old)
	x.takeRan(now, nw, old)
	x.apply(old, now, nw.ResourceVersion)
	x.tell(Change{Old: old, New: now, Words: words})
}

// Delete implements cache.ReflectorStore.
func (f feed) Delete(obj any) error {
	nw, ok := obj.(*v1alpha1.NodeWorkload)
	if !ok {
		return fmt.Errorf("a %T is no NodeWorkload", obj)
	}
	contain.Do(f.log, func() { f.Index.Gone(nw) })
	return nil
}

// Gone notes a NodeWorkload that was deleted, with its last words.
func (x *Index) Gone(nw *v1alpha1.NodeWorkload) {
	x.feeding.Lock()
	defer x.feeding.Unlock()
	words := x.kills.Gone(nw)
	old := x.Get(client.ObjectKeyFromObject(nw))
	if old == nil {
		old = ShareOf(nw, nil)
	}
	x.apply(old, nil, nw.ResourceVersion)
	x.tell(Change{Old: old, Words: words})
}

// Replace implements cache.ReflectorStore. The objects are Shares.
func (f feed) Replace(objects []any, version string) error {
	all := make(shares, len(objects))
	for _, obj := range objects {
		s, ok := obj.(*Share)
		if !ok {
			return fmt.Errorf("a %T is no Share", obj)
		}
		all[s.Key()] = s
	}
	f.Index.replace(all, version)
	return nil
}

// Reset notes everything that there is, in a list.
func (x *Index) Reset(list *v1alpha1.NodeWorkloadList) {
	all := make(shares, len(list.Items))
	for i := range list.Items {
		s := x.take(&list.Items[i])
		all[s.Key()] = s
	}
	x.replace(all, list.ResourceVersion)
}

// taken are the NodeWorkloads that lists had since the last one that was complete.
func (x *Index) taken() map[types.UID]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	listed := x.listed
	x.listed = map[types.UID]bool{}
	return listed
}

// replace notes everything that there is at a resourceVersion.
func (x *Index) replace(all shares, version string) {
	x.feeding.Lock()
	defer x.feeding.Unlock()
	x.mu.RLock()
	before := x.shares
	x.mu.RUnlock()
	there := make(map[types.UID]bool, len(all))
	for _, s := range all {
		there[s.UID] = true
	}
	for uid := range x.taken() {
		if !there[uid] {
			x.kills.Lost(uid)
		}
	}
	for _, old := range before {
		if !there[old.UID] {
			x.kills.Lost(old.UID)
		}
	}
	x.reset(all, version)
	for key, old := range before {
		if all[key] == nil {
			x.tell(Change{Old: old})
		}
	}
	for key, now := range all {
		x.tell(Change{Old: before[key], New: now, Words: true})
	}
	select {
	case <-x.synced:
	default:
		close(x.synced)
	}
}

// Resync implements cache.ReflectorStore.
func (f feed) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore: everything up to a resourceVersion was
// sent.
func (f feed) Bookmark(version string) error {
	f.apply(nil, nil, version)
	return nil
}

// Unchanged reports whether nothing changed that anything is decided by.
func (c Change) Unchanged() bool {
	return !c.Words && c.Old != nil && c.New != nil && c.Old.sameReport(c.New)
}

// StatusOnly reports whether nothing but the status of an object changed.
func (c Change) StatusOnly() bool { return c.Old != nil && c.New != nil && c.Old.sameSpec(c.New) }

// tell passes a change on. feeding is held.
func (x *Index) tell(c Change) {
	for _, listener := range x.listeners {
		contain.Do(x.log, func() { listener(c) })
	}
}

// Listen calls listener for every NodeWorkload that there is, as if it were new, and then
// for each change, in order. It must not block.
func (x *Index) Listen(listener func(Change)) {
	x.feeding.Lock()
	defer x.feeding.Unlock()
	x.mu.RLock()
	all := x.shares
	x.mu.RUnlock()
	for _, s := range all { // only a feed changes it, and feeding is held
		listener(Change{New: s, Words: true})
	}
	x.listeners = append(x.listeners, listener)
}

// WaitForSync waits until all NodeWorkloads are known.
func (x *Index) WaitForSync(ctx context.Context) error {
	select {
	case <-x.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the NodeWorkloads: %w", ctx.Err())
	}
}

// Synced reports whether all NodeWorkloads are known.
func (x *Index) Synced() bool {
	select {
	case <-x.synced:
		return true
	default:
		return false
	}
}
