// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// renewDeadline is controller-runtime's default: for how long a leader tries to renew its Lease.
const renewDeadline = 10 * time.Second

// ownLease is the Lease by which one of several replicas leads. Only who holds it gives it up: client-go lets a
// process that hung, and lost it meanwhile, give up that of the next leader, and two would lead.
// (client-go tools/leaderelection/leaderelection.go:release)
type ownLease struct {
	resourcelock.Interface

	mu sync.Mutex
	// holder is who held it when it was read last.
	holder string
}

// newLease returns the Lease of the managers of a namespace.
func newLease(cfg *rest.Config, namespace string, events record.EventRecorder) (resourcelock.Interface, error) {
	lock, err := leaderelection.NewResourceLock(rest.CopyConfig(cfg), recorderOf{events: events}, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: namespace, RenewDeadline: renewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("make the lock for the leader's Lease: %w", err)
	}
	return &ownLease{Interface: lock}, nil
}

// Get implements resourcelock.Interface.
func (l *ownLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	got, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder = got.HolderIdentity
	}
	return got, raw, err
}

// Update implements resourcelock.Interface.
func (l *ownLease) Update(ctx context.Context, next resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	holder := l.holder
	l.mu.Unlock()
	if next.HolderIdentity == "" && holder != l.Identity() {
		return fmt.Errorf("the Lease is not given up: %q holds it, not %q", holder, l.Identity())
	}
	return l.Interface.Update(ctx, next)
}

// recorderOf hands out one recorder.
type recorderOf struct {
	recorder.Provider
	events record.EventRecorder
}

// GetEventRecorderFor implements recorder.Provider.
func (r recorderOf) GetEventRecorderFor(string) record.EventRecorder { return r.events }
