// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

// No NodeWorkload gets a request twice, although caches may be behind and the manager may end
// between any two writes:
//
//  1. What is known of NodeWorkloads is read.
//  2. The status is written, with the NodeWorkloads that get the request now.
//  3. The request is read past the cache. It must be the one that the status of 2 is in.
//  4. Each NodeWorkload is changed, if it still is as it was in 1.
//
// A request is taken from a NodeWorkload only when its status says that it is over, in all or
// on that node, or when it is gone. So, where a NodeWorkload in 1 has no request because that
// was taken from it, 3 shows why; where it was taken after 1, 4 fails. A manager that ended
// between 2 and 4 left a NodeWorkload without the request, which gets it the next time, before
// others.

// handOut writes the status, gives the request to nodes, and takes it from those that never
// answered. version is the last resourceVersion of what the nodes got, "" without any that
// takes up budget.
func (r *Reconciler) handOut(ctx context.Context, f *facts, targets []target, begin []int) (version string, err error) {
	st := f.status(targets)
	if err := r.writeStatus(ctx, f.kr, st); err != nil {
		return "", err
	}
	withdraw := withdrawn(targets, st.NodeStates)
	if st.CompletionTime != nil || len(begin)+len(withdraw) == 0 {
		return "", nil
	}
	if err := r.confirm(ctx, f.kr); err != nil {
		return "", err
	}
	var errs []error
	for _, i := range begin {
		entered, err := r.enter(ctx, f, &targets[i])
		version = fleet.Later(version, entered)
		errs = append(errs, err)
	}
	for _, i := range withdraw {
		errs = append(errs, r.takeFrom(ctx, targets[i].share, f.kr.Name, func(n v1alpha1.NodeRequest) bool { return n.ID == string(f.kr.UID) }))
	}
	switch {
	case f.kr.Spec.DryRun || f.kr.Spec.Action == v1alpha1.RequestSignal:
		version = ""
	case !f.took && version != "" && f.mw != nil:
		r.fleet.Shares.Wrote(f.mw.UID, version, time.Now())
	}
	return version, errors.Join(errs...)
}

// confirm looks past the cache whether a request is as it is known. If it is not, what was
// decided may be wrong.
func (r *Reconciler) confirm(ctx context.Context, kr *v1alpha1.KillRequest) error {
	current := &v1alpha1.KillRequest{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(kr), current)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get KillRequest past the cache: %w", err)
	case err != nil || current.UID != kr.UID || current.ResourceVersion != kr.ResourceVersion:
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("killrequests").GroupResource(), kr.Name, errors.New("it has changed since it was read"))
	}
	return nil
}

// enter hands the request to a node, and returns the resourceVersion that this made.
func (r *Reconciler) enter(ctx context.Context, f *facts, t *target) (version string, err error) {
	edit := t.share.Edit()
	edit.Set(append(slices.Clone(t.share.RequestList()), f.entry(t)), "spec", "requests")
	nw, err := edit.Apply(ctx, r.client)
	if err != nil {
		return "", fmt.Errorf("hand KillRequest %q to node %q: %w", f.kr.Name, t.node, err)
	}
	return nw.ResourceVersion, nil
}

// withdrawn are the positions of nodes on which the request failed before their shims took
// it, as far as the status says so.
func withdrawn(targets []target, known []v1alpha1.RequestNodeState) []int {
	says := map[string]bool{}
	for i := range known {
		says[known[i].NodeName] = true
	}
	var list []int
	for i := range targets {
		if targets[i].untaken() && says[targets[i].node] {
			list = append(list, i)
		}
	}
	return list
}

// release takes the requests of a name, but for that of a UID, from all nodes that have them.
// Containers that were stopped for them are started again. What the cache says is not enough
// for that.
func (r *Reconciler) release(ctx context.Context, name types.NamespacedName, but types.UID) error {
	stale := func(n v1alpha1.NodeRequest) bool { return n.Name == name.Name && n.ID != string(but) }
	shares := r.fleet.Shares.WithRequest(name)
	if !slices.ContainsFunc(shares, func(s *fleet.Share) bool { return slices.ContainsFunc(s.RequestList(), stale) }) {
		return nil
	}
	current := &v1alpha1.KillRequest{}
	err := r.live.Get(ctx, name, current)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get KillRequest past the cache: %w", err)
	case err != nil || !current.DeletionTimestamp.IsZero() || current.Status.CompletionTime != nil:
		but = ""
	default:
		but = current.UID
	}
	var errs []error
	for _, share := range shares {
		errs = append(errs, r.takeFrom(ctx, share, name.Name, stale))
	}
	return errors.Join(errs...)
}

// takeFrom takes requests from a NodeWorkload.
func (r *Reconciler) takeFrom(ctx context.Context, share *fleet.Share, name string, which func(v1alpha1.NodeRequest) bool) error {
	left := slices.DeleteFunc(slices.Clone(share.RequestList()), which)
	if len(left) == len(share.RequestList()) {
		return nil
	}
	edit := share.Edit()
	if len(left) == 0 {
		edit.Remove("spec", "requests")
	} else {
		edit.Set(left, "spec", "requests")
	}
	if _, err := edit.Apply(ctx, r.client); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take KillRequest %q from node %q: %w", name, share.Node, err)
	}
	return nil
}
