// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package killrequest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/fleet"
)

const (
	// turnRetry is when to look again while nodes wait for their turn: what they wait for may
	// not wake the request. turnSoon is when, while another writer has the turn.
	turnRetry, turnSoon = 2 * time.Second, 100 * time.Millisecond
)

// gather reads what is decided from. A ManagedWorkload that does not exist runs nowhere.
func (r *Reconciler) gather(ctx context.Context, kr *v1alpha1.KillRequest) (*facts, error) {
	f := &facts{
		kr: kr, given: map[string]*v1alpha1.RequestNodeState{}, labels: r.labels, now: time.Now(),
		silentSince: r.silences.of(client.ObjectKeyFromObject(kr)),
	}
	f.responds = func(s *fleet.Share) bool { return r.fleet.Shims.Of(s.Node, f.now).Believed(s).Responding() }
	for i := range kr.Status.NodeStates {
		if known := &kr.Status.NodeStates[i]; known.NodeWorkloadUID != "" {
			f.given[known.NodeName] = known
		}
	}
	mw, err := r.workload(ctx, client.ObjectKey{Namespace: kr.Namespace, Name: kr.Spec.WorkloadName})
	if err != nil || mw == nil {
		return f, err
	}
	f.mw, f.turn = mw, r.fleet.Shares.Turn(mw.UID, f.now) // before its shares are read
	f.shares = r.shares(f)
	return f, nil
}

// workload reads the ManagedWorkload of a request, nil if there is none. As a request that
// finds none is over, and starts what it stopped, the cache is not enough for that.
func (r *Reconciler) workload(ctx context.Context, key client.ObjectKey) (*v1alpha1.ManagedWorkload, error) {
	mw := &v1alpha1.ManagedWorkload{}
	err := r.client.Get(ctx, key, mw)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, mw)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ManagedWorkload: %w", err)
	}
	return mw, nil
}

// shares are those that a request may be about: where it only names nodes, those on them.
func (r *Reconciler) shares(f *facts) []*fleet.Share {
	nodes := &f.kr.Spec.Nodes
	if nodes.All || nodes.Selector != nil {
		return r.fleet.Shares.OfWorkload(f.mw.UID)
	}
	return r.fleet.Shares.OfWorkloadOn(f.mw.UID, nodes.Names)
}

// labels are those of a Node, nil if there is none.
func (r *Reconciler) labels(node string) map[string]string {
	if n := r.fleet.Nodes.Get(node); n != nil {
		return n.Labels
	}
	return nil
}

// waits is whether nodes wait for their turn.
func waits(targets []target) bool {
	for i := range targets {
		if targets[i].open() && !targets[i].entered {
			return true
		}
	}
	return false
}

// wake is when to look again although no node that has the request changes: at the deadline,
// when shims were silent for too long, and while nodes wait for their turn.
func (f *facts) wake(targets []target, begun int) time.Duration {
	after := time.Duration(0)
	soonest := func(d time.Duration) {
		if d > 0 && (after == 0 || d < after) {
			after = d
		}
	}
	waiting := -begun
	for i := range targets {
		t := &targets[i]
		if t.open() && !t.entered {
			waiting++
		}
		if t.silent {
			soonest(f.silentFrom(t.node).Add(patience).Sub(f.now))
		}
	}
	if at := deadline(f.kr); at != nil && at.After(f.now) {
		soonest(at.Sub(f.now) + time.Millisecond)
	}
	if waiting > 0 {
		soonest(turnRetry)
	}
	if f.missed {
		soonest(turnSoon)
	}
	return after
}
