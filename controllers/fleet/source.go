// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source makes a source of a controller's requests out of a function that begins to
// listen. The controller begins when all NodeWorkloads are known.
func (x *Index) Source(listen func(requestQueue)) source.SyncingSource {
	return &listening{"NodeWorkloads", x.WaitForSync, listen}
}

// Source makes a source of a controller's requests out of a function that begins to
// listen. The controller begins when all Leases were seen.
func (s *Shims) Source(listen func(requestQueue)) source.SyncingSource {
	return &listening{"leases of shims", s.waitForSync, listen}
}

// listening is a source of requests.
type listening struct {
	what   string
	wait   func(context.Context) error
	listen func(requestQueue)
}

// Start implements source.Source.
func (l *listening) Start(_ context.Context, q requestQueue) error {
	l.listen(q)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (l *listening) WaitForSync(ctx context.Context) error { return l.wait(ctx) }

func (l *listening) String() string { return l.what }

// Runnable keeps the index in step with the API server, also while another manager leads.
func (x *Index) Runnable(c client.WithWatch) manager.Runnable {
	return feeder{index: x, client: c}
}

type feeder struct {
	index  *Index
	client client.WithWatch
}

// Start implements manager.Runnable.
func (f feeder) Start(ctx context.Context) error {
	f.index.Run(ctx, f.client)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f feeder) NeedLeaderElection() bool { return false }
