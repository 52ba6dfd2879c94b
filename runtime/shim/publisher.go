// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/status"
)

// maxConflicts is how often a write is tried again with a fresh object before
// the caller's own back-off takes over.
const maxConflicts = 5

// publisher writes the status of NodeWorkloads, all but the manager's conditions.
type publisher struct {
	clock *clock.Clock
	// cached reads from the informer, live from the API server.
	cached, live client.Reader
	writer       client.Client
	// started waits until the cache has started, and reports whether it has: workers that are
	// restored begin before it does. nil where there is none.
	started func(context.Context) bool

	mu sync.Mutex
	// written is what the last write left: the cache may lag.
	written map[types.UID]written
	// refused is the size of the smallest status that was too large, by UID.
	refused map[types.UID]int
}

// written is what is remembered of an object that was just written.
type written struct {
	resourceVersion string
	managers        []metav1.Condition
	// deletion and finalizers are those that the write saw: a restore of the API's storage
	// takes a deletion back, and the cache may still show it.
	deletion   *metav1.Time
	finalizers []string
}

func newPublisher(cached, live client.Reader, writer client.Client) *publisher {
	return &publisher{cached: cached, live: live, writer: writer, written: map[types.UID]written{}, refused: map[types.UID]int{}}
}

// Publish implements podworker.Publisher. A status that the API server does not take for
// its size is written with less in it, and says so.
func (p *publisher) Publish(ctx context.Context, id podworker.Identity, st *v1alpha1.NodeWorkloadStatus) error {
	return p.change(ctx, id, func(ctx context.Context, nw *v1alpha1.NodeWorkload) error {
		fitting, level, err := st, 0, error(nil)
		if p.tooLarge(id.UID, st) {
			err = errTooLarge
		}
		for {
			if err == nil {
				err = p.write(ctx, nw, fitting)
			}
			if !isTooLarge(err) {
				return err
			}
			p.noteTooLarge(id.UID, st)
			level++
			shrunk, ok := status.Shrink(st, &nw.Status, level, p.clock.Now())
			if !ok {
				return fmt.Errorf("update status: %w: %w", podworker.ErrRefused, err)
			}
			fitting, err = shrunk, nil
		}
	})
}

// write writes a status if it differs.
func (p *publisher) write(ctx context.Context, nw *v1alpha1.NodeWorkload, st *v1alpha1.NodeWorkloadStatus) error {
	merged := mergeStatus(&nw.Status, st)
	if equality.Semantic.DeepEqual(nw.Status, *merged) {
		p.remember(nw) // it may be newer than the cache
		return nil
	}
	// Only metadata and status count in an update of the status.
	lean := &v1alpha1.NodeWorkload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: nw.Namespace, Name: nw.Name, UID: nw.UID, ResourceVersion: nw.ResourceVersion,
		},
		Spec:   v1alpha1.NodeWorkloadSpec{NodeName: nw.Spec.NodeName},
		Status: *merged,
	}
	err := p.writer.Status().Update(ctx, lean)
	if apierrors.IsInvalid(err) && !isTooLarge(err) {
		return fmt.Errorf("update status: %w: %w", podworker.ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	p.remember(lean)
	return nil
}

// Release implements podworker.Publisher.
func (p *publisher) Release(ctx context.Context, id podworker.Identity) error {
	err := p.change(ctx, id, func(ctx context.Context, nw *v1alpha1.NodeWorkload) error {
		if nw.DeletionTimestamp == nil {
			// The cache is old, or the API's storage was restored from a backup.
			var err error
			if nw, err = p.get(ctx, p.live, id); err != nil || nw.DeletionTimestamp == nil {
				return err
			}
		}
		kept := slices.DeleteFunc(slices.Clone(nw.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
		if len(kept) == len(nw.Finalizers) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": kept, "uid": nw.UID, "resourceVersion": nw.ResourceVersion,
		}})
		if err != nil {
			return fmt.Errorf("encode the patch: %w", err)
		}
		target := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: nw.Namespace, Name: nw.Name}}
		if err := p.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("remove finalizer: %w", err)
		}
		return nil
	})
	p.forget(id.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.refused, id.UID)
	return err
}

// Live implements podworker.Publisher.
func (p *publisher) Live(ctx context.Context, of podworker.Identity) (*template.Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	nw, err := read(ctx, p.live, types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	if err != nil {
		return nil, err
	}
	return template.Of(nw), nil
}

// change applies a change to the latest known version of the object, and to a
// fresh one after a conflict. ErrGone when there is no object with that UID.
func (p *publisher) change(ctx context.Context, id podworker.Identity, apply func(context.Context, *v1alpha1.NodeWorkload) error) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, apiTimeout)
		defer cancel()
	}
	nw, err := p.latest(ctx, id)
	for range maxConflicts {
		if err != nil {
			return err
		}
		err = apply(ctx, nw)
		switch {
		case objectAbsent(err, id.Name):
			p.forget(id.UID)
			// A kind without a status of its own is answered like this too.
			if _, readErr := p.get(ctx, p.live, id); readErr != nil {
				return readErr
			}
			return err
		case !apierrors.IsConflict(err):
			return err
		}
		p.forget(id.UID)
		nw, err = p.get(ctx, p.live, id)
	}
	return fmt.Errorf("the object of %s/%s keeps changing: %w", id.Namespace, id.Name, err)
}

// latest is the newest version of the object that is known without asking: the
// cache's, or what the last write left.
func (p *publisher) latest(ctx context.Context, id podworker.Identity) (*v1alpha1.NodeWorkload, error) {
	nw, err := p.get(ctx, p.cached, id)
	if notStarted := (*cache.ErrCacheNotStarted)(nil); errors.As(err, &notStarted) && p.started != nil && p.started(ctx) {
		nw, err = p.get(ctx, p.cached, id)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last, found := p.written[id.UID]
	if !found {
		return nw, nil
	}
	if order, err := resourceversion.CompareResourceVersion(last.resourceVersion, nw.ResourceVersion); err != nil || order <= 0 {
		delete(p.written, id.UID)
		return nw, nil
	}
	// Of the status only the manager's conditions matter to the next write.
	nw.ResourceVersion, nw.DeletionTimestamp, nw.Finalizers = last.resourceVersion, last.deletion, last.finalizers
	nw.Status = v1alpha1.NodeWorkloadStatus{Conditions: slices.Clone(last.managers)}
	return nw, nil
}

// get reads the object of one instance of a workload. ErrGone when there is none, or one
// with another UID.
func (p *publisher) get(ctx context.Context, reader client.Reader, id podworker.Identity) (*v1alpha1.NodeWorkload, error) {
	nw, err := read(ctx, reader, types.NamespacedName{Namespace: id.Namespace, Name: id.Name})
	if err == nil && nw.UID != id.UID {
		return nil, podworker.ErrGone
	}
	return nw, err
}

// read reads the object of a name. ErrGone when there is none.
func read(ctx context.Context, reader client.Reader, key types.NamespacedName) (*v1alpha1.NodeWorkload, error) {
	nw := &v1alpha1.NodeWorkload{}
	err := reader.Get(ctx, key, nw)
	switch {
	case objectAbsent(err, key.Name):
		return nil, podworker.ErrGone
	case err != nil:
		return nil, fmt.Errorf("get NodeWorkload: %w", err)
	}
	return nw, nil
}

func (p *publisher) remember(nw *v1alpha1.NodeWorkload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[nw.UID] = written{
		resourceVersion: nw.ResourceVersion,
		deletion:        nw.DeletionTimestamp,
		finalizers:      nw.Finalizers,
		managers:        slices.DeleteFunc(slices.Clone(nw.Status.Conditions), func(c metav1.Condition) bool { return !isManagers(c) }),
	}
}

func (p *publisher) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, uid)
}

// mergeStatus is what is to be written: the shim's status with the conditions
// that the manager owns as they are in the API.
func mergeStatus(current, ours *v1alpha1.NodeWorkloadStatus) *v1alpha1.NodeWorkloadStatus {
	merged := ours.DeepCopy()
	merged.Conditions = slices.DeleteFunc(merged.Conditions, isManagers)
	for _, c := range current.Conditions {
		if isManagers(c) {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	return merged
}

func isManagers(c metav1.Condition) bool { return slices.Contains(v1alpha1.ManagersConditions, c.Type) }
