// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// ShimState is what a node's Lease says about its shim.
type ShimState struct {
	// Reason is ReasonShimNotFound, ReasonLeaseExpired or ReasonLeaseRenewed; empty while
	// the manager cannot judge.
	Reason string
	// Message says it in words.
	Message string
	// Expires is when a renewed Lease will have expired, or when one may be judged.
	Expires time.Time
}

// Judged reports whether the manager's own reads allow it to say anything.
func (s ShimState) Judged() bool { return s.Reason != "" }

// Believed is the state or, where it cannot be judged, what was judged last.
func (s ShimState) Believed(nw *v1alpha1.NodeWorkload) ShimState {
	if s.Judged() {
		return s
	}
	last := ShimState{Reason: v1alpha1.ReasonLeaseRenewed}
	if nw != nil {
		if c := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionShimResponding); c != nil && c.Status == metav1.ConditionFalse {
			last = ShimState{Reason: c.Reason, Message: c.Message}
		}
	}
	return last
}

// Responding reports whether the shim renews its Lease.
func (s ShimState) Responding() bool { return s.Reason == v1alpha1.ReasonLeaseRenewed }

// Shims knows which shims respond. A Lease lives from the moment its renewal is seen,
// by the manager's clock: the node's may be wrong. It is judged expired when no renewal
// was seen for as long as it lasts and the manager could read Leases all that time.
type Shims struct {
	namespace string
	reads     contact

	mu   sync.Mutex
	seen map[string]sighting // by the name of the Lease
}

// sighting is a renewal and when it was seen. At the first sight of a Lease it may be
// long past.
type sighting struct {
	renewed metav1.MicroTime
	at      time.Time
	first   bool
}

// NewShims returns the shims whose Leases are in a namespace.
func NewShims(namespace string) *Shims {
	return &Shims{namespace: namespace, seen: map[string]sighting{}}
}

// State is what the Lease that reader sees says about the shim of a node.
func (s *Shims) State(ctx context.Context, reader client.Reader, node string, now time.Time) (ShimState, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.LeaseNamePrefix + node}, lease)
	if apierrors.IsNotFound(err) {
		return ShimState{Reason: v1alpha1.ReasonShimNotFound, Message: fmt.Sprintf("node %s has no shim", node)}, nil
	}
	if err != nil {
		return ShimState{}, fmt.Errorf("get the lease of the shim of node %q: %w", node, err)
	}
	return s.judge(lease, now), nil
}

// judge is what a Lease says.
func (s *Shims) judge(lease *coordinationv1.Lease, now time.Time) ShimState {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return ShimState{Reason: v1alpha1.ReasonLeaseExpired, Message: "the shim never renewed its lease"}
	}
	duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	s.mu.Lock()
	seen, ok := s.seen[lease.Name]
	s.mu.Unlock()
	if !ok || !seen.renewed.Equal(lease.Spec.RenewTime) {
		seen = sighting{renewed: *lease.Spec.RenewTime, at: now, first: !ok} // about to be observed
	}
	expires := seen.at.Add(duration)
	switch {
	case expires.After(now) && seen.first && !seen.renewed.Add(duration).After(now):
		return ShimState{Expires: expires} // it may still be renewed
	case expires.After(now):
		return ShimState{Reason: v1alpha1.ReasonLeaseRenewed, Message: "the shim renews its lease", Expires: expires}
	case !s.reads.covers(now, duration):
		return ShimState{Expires: now.Add(readInterval)}
	}
	return ShimState{
		Reason:  v1alpha1.ReasonLeaseExpired,
		Message: fmt.Sprintf("the shim renewed its lease last at %s", lease.Spec.RenewTime.UTC().Format(time.RFC3339)),
	}
}

// observe notes that a Lease was seen.
func (s *Shims) observe(lease *coordinationv1.Lease, now time.Time) {
	if lease.Spec.RenewTime == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[lease.Name]
	if ok && seen.renewed.Equal(lease.Spec.RenewTime) {
		return
	}
	s.seen[lease.Name] = sighting{renewed: *lease.Spec.RenewTime, at: now, first: !ok}
}

func (s *Shims) forget(lease string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, lease)
}

// watch notes every renewal and wakes the NodeWorkloads of a node when its shim
// came, came back, or lost its Lease. That a Lease expires is noticed by a timer
// of each NodeWorkload.
func (s *Shims) watch(requests func(ctx context.Context, node string) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(ctx context.Context, lease client.Object, q queue) {
		for _, r := range requests(ctx, strings.TrimPrefix(lease.GetName(), v1alpha1.LeaseNamePrefix)) {
			q.Add(r)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok {
				s.observe(lease, time.Now())
				wake(ctx, lease, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, wasLease := e.ObjectOld.(*coordinationv1.Lease)
			lease, isLease := e.ObjectNew.(*coordinationv1.Lease)
			if !wasLease || !isLease {
				return
			}
			now := time.Now()
			responded := s.judge(old, now).Responding()
			s.observe(lease, now)
			if !responded {
				wake(ctx, lease, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			s.forget(e.Object.GetName())
			wake(ctx, e.Object, q)
		},
	}
}

// isShimLease reports whether a Lease is that of a shim.
func isShimLease(o client.Object) bool {
	return strings.HasPrefix(o.GetName(), v1alpha1.LeaseNamePrefix)
}
