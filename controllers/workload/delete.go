// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
	"github.com/managedworkload/managedworkload/controllers/writes"
)

// reconcileDelete ends the NodeWorkloads of an object that is being deleted, or
// lets them go when they are to be kept. No garbage collector is relied on, so
// the finalizers that ask for one are honoured here.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	act := func(share *fleet.Share) error { return r.end(ctx, s, share, s.grace, byWorkloadDeleted) }
	s.finalizers = []string{v1alpha1.Finalizer, metav1.FinalizerDeleteDependents}
	orphaning := controllerutil.ContainsFinalizer(s.mw, metav1.FinalizerOrphanDependents)
	if orphaning {
		act = func(share *fleet.Share) error { return r.orphan(ctx, s, share) }
		s.finalizers = []string{v1alpha1.Finalizer, metav1.FinalizerOrphanDependents}
	}
	left, err := r.eachNodeWorkload(ctx, s, act)
	if err != nil {
		return err
	}
	switch {
	case orphaning:
		clear(s.shares)
		s.finished = true
	case left == 0 && r.fleet.Kills.AllGone(s.mw.UID):
		s.finished = true
	}
	return nil
}

// keptForUs reports whether an object that is being deleted waits for the manager:
// also one that was deleted before the manager ever saw it, with a finalizer that
// asks for a garbage collector.
func keptForUs(mw *v1alpha1.ManagedWorkload) bool {
	return slices.ContainsFunc([]string{v1alpha1.Finalizer, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents},
		func(f string) bool { return controllerutil.ContainsFinalizer(mw, f) })
}

// unseenInterval is when a deletion looks again at NodeWorkloads that the cache does
// not have: their watch may be away until they are gone, and then nothing wakes it.
const unseenInterval = 5 * time.Second

// eachNodeWorkload calls act for every NodeWorkload that the object controls and returns
// how many there are. When the cache knows none, the API server is asked: one
// that was just created must not be left behind.
func (r *Reconciler) eachNodeWorkload(ctx context.Context, s *scope, act func(*fleet.Share) error) (int, error) {
	if len(s.shares)+len(s.surplus) == 0 || controllerutil.ContainsFinalizer(s.mw, metav1.FinalizerOrphanDependents) {
		clear(s.shares)
		s.surplus = nil
		if err := r.takeLive(ctx, s); err != nil {
			return 0, err
		}
		if len(s.shares)+len(s.surplus) > 0 {
			s.wakeAfter(unseenInterval)
		}
	}
	var errs failures
	for _, share := range s.all() {
		errs.add(act(share))
	}
	return len(s.shares) + len(s.surplus), errs.err()
}

// pageSize is how many NodeWorkloads are read from the API server at once.
const pageSize = 100

// takeLive takes the NodeWorkloads of the object from the API server: those with its
// label and, once there are none, by their owner those that lost it. Only that last
// look is at all NodeWorkloads of the namespace, and at nothing but their metadata.
func (r *Reconciler) takeLive(ctx context.Context, s *scope) error {
	_, err := r.eachLabelled(ctx, s.mw, s.take)
	found := len(s.shares)+len(s.surplus) > 0
	if err != nil || found && !controllerutil.ContainsFinalizer(s.mw, metav1.FinalizerOrphanDependents) {
		return err // they are waited for, and then this is asked again
	}
	every := &metav1.PartialObjectMetadataList{}
	every.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeWorkloadList"))
	return r.eachPage(ctx, every, func() error {
		for i := range every.Items {
			found := &every.Items[i]
			if !metav1.IsControlledBy(found, s.mw) || found.Labels[v1alpha1.LabelWorkload] == placement.LabelValue(s.mw.Name) {
				continue
			}
			share, err := r.liveShare(ctx, s.mw, client.ObjectKeyFromObject(found))
			if err != nil {
				return err
			}
			if share != nil {
				s.take(share)
			}
		}
		return nil
	}, client.InNamespace(s.mw.Namespace))
}

// eachLabelled calls take for the NodeWorkloads that the API server has with the label of an
// object and that it controls, and returns the resourceVersion of the list.
func (r *Reconciler) eachLabelled(ctx context.Context, mw *v1alpha1.ManagedWorkload, take func(*fleet.Share)) (version string, err error) {
	labelled := &v1alpha1.NodeWorkloadList{}
	err = r.eachPage(ctx, labelled, func() error {
		for i := range labelled.Items {
			if metav1.IsControlledBy(&labelled.Items[i], mw) {
				take(r.fleet.Shares.Read(&labelled.Items[i]))
			}
		}
		return nil
	}, client.InNamespace(mw.Namespace), client.MatchingLabels{v1alpha1.LabelWorkload: placement.LabelValue(mw.Name)})
	return labelled.ResourceVersion, err
}

// liveShare is a NodeWorkload as the API server has it, nil if an object does not control it.
func (r *Reconciler) liveShare(ctx context.Context, mw *v1alpha1.ManagedWorkload, key client.ObjectKey) (*fleet.Share, error) {
	nw := &v1alpha1.NodeWorkload{}
	if err := r.live.Get(ctx, key, nw); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get NodeWorkload %q past the cache: %w", key.Name, err)
	}
	if !metav1.IsControlledBy(nw, mw) {
		return nil, nil
	}
	return r.fleet.Shares.Read(nw), nil
}

// eachPage reads a list past the cache page by page and calls look after each.
func (r *Reconciler) eachPage(ctx context.Context, list client.ObjectList, look func() error, options ...client.ListOption) error {
	next := ""
	for {
		if err := r.live.List(ctx, list, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return fmt.Errorf("list NodeWorkloads past the cache: %w", err)
		}
		if err := look(); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// all are the NodeWorkloads of the object, by name.
func (s *scope) all() []*fleet.Share {
	list := slices.AppendSeq(slices.Clone(s.surplus), maps.Values(s.shares))
	slices.SortFunc(list, func(a, b *fleet.Share) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// vanishes reports whether the object is gone once its finalizers here are.
func (s *scope) vanishes() bool {
	return s.finished && !slices.ContainsFunc(s.mw.Finalizers, func(f string) bool { return !slices.Contains(s.finalizers, f) })
}

// removeFinalizers lets the object go. The status may just have been written, and
// the cache may lag: then the object is read again.
func (r *Reconciler) removeFinalizers(ctx context.Context, s *scope) error {
	err := r.patchFinalizersAway(ctx, s.mw, s.finalizers)
	if apierrors.IsConflict(err) {
		latest := &v1alpha1.ManagedWorkload{}
		if err = r.live.Get(ctx, client.ObjectKeyFromObject(s.mw), latest); err == nil && latest.UID == s.mw.UID {
			err = r.patchFinalizersAway(ctx, latest, s.finalizers)
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizers: %w", err)
	}
	return nil
}

func (r *Reconciler) patchFinalizersAway(ctx context.Context, mw *v1alpha1.ManagedWorkload, finalizers []string) error {
	base := mw.DeepCopy()
	for _, f := range finalizers {
		controllerutil.RemoveFinalizer(mw, f)
	}
	return r.client.Patch(ctx, mw, writes.Locked(base))
}
