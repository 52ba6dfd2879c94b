// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Believed is the state or, where it cannot be judged, what was judged last. share may be
// nil.
func (s ShimState) Believed(share *Share) ShimState {
	if s.Judged() {
		return s
	}
	last := ShimState{Reason: v1alpha1.ReasonLeaseRenewed}
	if share != nil && share.Shim != nil && share.Shim.Status == metav1.ConditionFalse {
		last = ShimState{Reason: share.Shim.Reason, Message: share.Shim.Message}
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

	mu        sync.Mutex
	seen      map[string]*sighting // by node
	listeners []func(node string)
	// synced reports whether all Leases were seen; nil before they are watched.
	synced func() bool
	log    logr.Logger
}

// sighting is a Lease, its renewal and when that was seen. At the first sight of a Lease
// the renewal may be long past.
type sighting struct {
	spec  coordinationv1.LeaseSpec
	clock offset
	at    time.Time
	first bool
	// down: the node shuts down, and was not back yet at that renewal.
	down bool
	// expiry wakes what waits for the end of the Lease.
	expiry *time.Timer
}

// NewShims returns the shims whose Leases are in a namespace.
func NewShims(namespace string) *Shims {
	return &Shims{namespace: namespace, seen: map[string]*sighting{}, log: logr.Discard()}
}

// syncRetry is when it is looked again whether all Leases were seen.
const syncRetry = time.Second

// Of is what the Lease that was seen last says about the shim of a node. It costs no read.
func (s *Shims) Of(node string, now time.Time) ShimState {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[node]
	switch {
	case ok:
		return s.judge(seen.spec, *seen, now)
	case s.synced != nil && !s.synced():
		return ShimState{Expires: now.Add(syncRetry)}
	}
	return noShim(node)
}

// ShutsDown reports whether a node shuts down, or has and is not back.
func (s *Shims) ShutsDown(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen[node]
	return seen != nil && seen.down
}

// shutsDown reports whether a Lease says that its node shuts down. A shim that renews it after the time
// that was written runs. Both times are the node's.
func shutsDown(lease *coordinationv1.Lease) bool {
	until, err := time.Parse(time.RFC3339, lease.Annotations[v1alpha1.AnnotationShutdownUntil])
	return err == nil && lease.Spec.RenewTime != nil && !lease.Spec.RenewTime.After(until)
}

func noShim(node string) ShimState {
	return ShimState{Reason: v1alpha1.ReasonShimNotFound, Message: "node " + node + " has no shim"}
}

// State is what the Lease that reader sees says about the shim of a node.
func (s *Shims) State(ctx context.Context, reader client.Reader, node string, now time.Time) (ShimState, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: v1alpha1.LeaseNamePrefix + node}, lease)
	if apierrors.IsNotFound(err) {
		return noShim(node), nil
	}
	if err != nil {
		return ShimState{}, fmt.Errorf("get the lease of the shim of node %q: %w", node, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.seen[node]
	if !ok || !sameRenewal(seen.spec, lease.Spec) {
		seen = &sighting{at: now, first: !ok} // about to be observed
	}
	return s.judge(lease.Spec, *seen, now), nil
}

// judge is what a Lease says that was seen so. s.mu is held.
func (s *Shims) judge(lease coordinationv1.LeaseSpec, seen sighting, now time.Time) ShimState {
	if lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return ShimState{Reason: v1alpha1.ReasonLeaseExpired, Message: "the shim never renewed its lease"}
	}
	duration := duration(lease)
	expires := seen.at.Add(duration)
	switch {
	case expires.After(now) && seen.first && !lease.RenewTime.Add(duration).After(now):
		return ShimState{Expires: expires} // it may still be renewed
	case expires.After(now):
		return ShimState{Reason: v1alpha1.ReasonLeaseRenewed, Message: "the shim renews its lease", Expires: expires}
	case !s.reads.covers(now, duration):
		return ShimState{Expires: now.Add(readInterval)}
	}
	return ShimState{
		Reason:  v1alpha1.ReasonLeaseExpired,
		Message: fmt.Sprintf("the shim renewed its lease last at %s", lease.RenewTime.UTC().Format(time.RFC3339)),
	}
}

func duration(lease coordinationv1.LeaseSpec) time.Duration {
	return time.Duration(ptr.Deref(lease.LeaseDurationSeconds, 0)) * time.Second
}

func sameRenewal(a, b coordinationv1.LeaseSpec) bool { return a.RenewTime.Equal(b.RenewTime) }
