// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/runtime/shim"
)

// leases are those of the shims of some nodes, renewed as the shim does.
type leases struct {
	api   client.Client
	nodes []string
	// once: they are written once, for the whole run.
	once   bool
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// spread is the time over which the first renewals of a fleet are spread, as they come of
// shims that started at any time: a renewal's interval, less for few nodes.
func spread(nodes int) time.Duration {
	return min(10*time.Second, time.Duration(nodes)*40*time.Millisecond)
}

// wholeRun is longer than any run.
const wholeRun = 24 * time.Hour

// start renews until stop.
func (l *leases) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	for i, node := range l.nodes {
		l.group.Go(func() {
			if pause(ctx, spread(len(l.nodes))*time.Duration(i)/time.Duration(len(l.nodes))) != nil {
				return
			}
			if l.once {
				if err := l.write(ctx, node, wholeRun); err != nil && ctx.Err() == nil {
					progress("A lease that is not renewed: %v", err)
				}
				return
			}
			shim.KeepLease(asNode(ctx, node), l.api, localstack.SystemNamespace, node)
		})
	}
}

func (l *leases) stop() {
	l.cancel()
	l.group.Wait()
}

// silence stops all renewals. A real lease lasts 40 s; to save that time, the last renewal
// says that it lasts for lasting, in whole seconds.
func (l *leases) silence(ctx context.Context, lasting time.Duration) error {
	l.stop()
	_, err := inParallel(ctx, len(l.nodes), func(ctx context.Context, i int) error {
		return l.write(ctx, l.nodes[i], lasting)
	})
	return err
}

// write renews one lease for lasting.
func (l *leases) write(ctx context.Context, node string, lasting time.Duration) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: localstack.SystemNamespace, Name: v1alpha1.LeaseNamePrefix + node}}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		_, err := controllerutil.CreateOrUpdate(ctx, l.api, lease, func() error {
			lease.Spec.HolderIdentity = &node
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			lease.Spec.LeaseDurationSeconds = ptr.To(int32(lasting.Seconds()))
			return nil
		})
		return err
	})
}
