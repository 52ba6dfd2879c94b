// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/contain"
)

// Watch notes every Lease of a shim that a cache sees, as soon as that is started.
func (s *Shims) Watch(ctx context.Context, leases cache.Informers) error {
	informer, err := leases.GetInformer(ctx, &coordinationv1.Lease{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch leases: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.see,
		UpdateFunc: func(_, lease any) { s.see(lease) },
		DeleteFunc: s.miss,
	})
	if err != nil {
		return fmt.Errorf("watch leases: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.log = registration.HasSynced, logr.FromContextOrDiscard(ctx)
	return nil
}

// waitForSync waits until all Leases were seen.
func (s *Shims) waitForSync(ctx context.Context) error {
	s.mu.Lock()
	synced := s.synced
	s.mu.Unlock()
	if synced != nil && !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return fmt.Errorf("wait for the leases of shims: %w", ctx.Err())
	}
	return nil
}

func (s *Shims) see(obj any) {
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		s.Observe(lease, time.Now())
	}
}

func (s *Shims) miss(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		s.forget(lease)
	}
}

// Listen calls listener for every node whose shim came, came back, fell silent, or lost its
// Lease, and for every node that shuts down or is back. It must not block.
func (s *Shims) Listen(listener func(node string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

func (s *Shims) tell(node string) {
	s.mu.Lock()
	listeners, log := s.listeners, s.log
	s.mu.Unlock()
	for _, listener := range listeners {
		contain.Do(log, func() { listener(node) })
	}
}

// nodeOf is the node of a shim's Lease; ok is false for other Leases.
func nodeOf(lease *coordinationv1.Lease) (node string, ok bool) {
	return strings.CutPrefix(lease.Name, v1alpha1.LeaseNamePrefix)
}

// Observe notes a Lease as it is now.
func (s *Shims) Observe(lease *coordinationv1.Lease, now time.Time) {
	if node, ok := nodeOf(lease); ok && s.note(node, lease, now) {
		s.tell(node)
	}
}

// note takes a Lease over, and reports whether its shim did not respond before, or its node
// shuts down or is back.
func (s *Shims) note(node string, lease *coordinationv1.Lease, now time.Time) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen[node]
	if !ok {
		known = &sighting{first: true}
		known.expiry = time.AfterFunc(duration(lease.Spec)+expirySlack, func() { contain.Do(s.log, func() { s.tell(node) }) })
		known.at, known.spec, known.clock, known.down = now, specOf(lease), measure(lease), shutsDown(lease)
		s.seen[node] = known
		return true
	}
	responded := s.judge(known.spec, *known, now).Responding()
	renewed := !sameRenewal(known.spec, lease.Spec)
	before := known.down
	known.spec, known.down = specOf(lease), shutsDown(lease)
	if renewed {
		known.clock = measure(lease)
		known.at, known.first = now, false
		known.expiry.Reset(duration(lease.Spec) + expirySlack)
	}
	return !responded || before != known.down
}

// specOf is what is kept of a Lease.
func specOf(lease *coordinationv1.Lease) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{RenewTime: lease.Spec.RenewTime, LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds}
}

// forget notes that a Lease is gone.
func (s *Shims) forget(lease *coordinationv1.Lease) {
	node, ok := nodeOf(lease)
	if !ok {
		return
	}
	s.mu.Lock()
	if known := s.seen[node]; known != nil {
		known.expiry.Stop()
	}
	delete(s.seen, node)
	s.mu.Unlock()
	s.tell(node)
}
