// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// makeOverseer makes what looks at the runtime as a whole, and the reconciler.
func (s *shim) makeOverseer(ctx context.Context, _ logr.Logger) error {
	identity := newClusterIdentity(s.api, s.options.StateDir)
	identity.alone = s.alone
	identity.use = s.runtime.SetClusterID
	synced, err := s.syncedFunc(ctx)
	if err != nil {
		return err
	}
	s.lease = shimLease(s.api, s.clock, s.options)
	s.lease.alone = s.alone
	asking := newProgress()
	keeper := &orphanKeeper{
		runtime: s.runtime, pool: s.pool, cached: s.cached(), synced: synced,
		api: s.api, cluster: identity, events: s.events, lease: s.lease, node: s.options.NodeName,
		progress: asking,
	}
	usable := &usability{pool: s.pool, events: s.events}
	check := &clusterCheck{
		cluster: identity, policy: &policyProbe{api: s.api}, orphans: keeper, usable: usable, progress: asking,
		lists: make(chan runtimeList, 1),
	}
	s.overseer = &overseer{
		runtime: s.runtime, pool: s.pool, events: s.events, usable: usable, check: check, progress: newProgress(),
		allowForeign: s.options.AllowForeignPods, firstSeen: s.runtimeSeen, happened: s.logs.Kick, kicked: make(chan struct{}, 1),
		knowsStatic: s.static.Known, abandon: s.pool.Abandon,
	}
	for name, progress := range map[string]*progress{"overseer": s.overseer.progress, "cluster": asking} {
		if err := s.mgr.AddHealthzCheck(name, progress.check); err != nil {
			return fmt.Errorf("add the health check: %w", err)
		}
	}
	s.garbage = &collector{runtime: s.runtime, executor: s.executor, dirs: s.dirs, pool: s.pool, orphans: keeper}
	countStream(s.counted, s.runtime.Healthy)
	if s.alone {
		return nil
	}
	r := &reconciler{reader: s.mgr.GetCache(), node: s.options.NodeName, pool: s.pool, cluster: identity, policy: check.policy, vanished: s.overseer.kick, handed: s.objects.watch.kick}
	return r.setup(s.mgr)
}

// cached reads what the API server has without asking it.
func (s *shim) cached() client.Reader {
	if s.alone {
		return noObjects{}
	}
	return s.mgr.GetCache()
}

// syncedFunc reports whether the list of NodeWorkloads is complete. It makes the
// informer without waiting for it.
func (s *shim) syncedFunc(ctx context.Context) (func() bool, error) {
	if s.alone {
		err := s.mgr.AddReadyzCheck("ping", healthz.Ping)
		return func() bool { return true }, err
	}
	informer, err := s.mgr.GetCache().GetInformer(ctx, &v1alpha1.NodeWorkload{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("make the informer: %w", err)
	}
	err = s.mgr.AddReadyzCheck("cache", func(*http.Request) error {
		if !informer.HasSynced() {
			return errors.New("the NodeWorkloads are not listed yet")
		}
		return nil
	})
	return informer.HasSynced, err
}

// runtimeSeen does what needs the runtime's answer once.
func (s *shim) runtimeSeen(ctx context.Context) error {
	name, version, driver, err := s.runtime.RuntimeInfo(ctx)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("Container runtime answers", "name", name, "version", version, "cgroupDriver", driver)
	s.overseer.setVersion(name + "://" + version)
	recursive, err := s.runtime.RecursiveReadOnly(ctx)
	if err != nil {
		return err
	}
	s.dirs.SetRecursiveReadOnly(recursive)
	if s.options.CgroupDriver == cgroupDriverAuto && driver != "" {
		if err := s.cgroups.SetDriver(driver); err != nil {
			return fmt.Errorf("take the runtime's cgroup driver: %w", err)
		}
	}
	close(s.bounds.ready)
	return nil
}

// countStream reports whether the runtime's events arrive.
func countStream(reg prometheus.Registerer, healthy func() bool) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "managedworkload_shim_runtime_events_healthy",
		Help: "1 while container events arrive from the runtime, 0 while it has to be listed each second.",
	}, func() float64 {
		if healthy() {
			return 1
		}
		return 0
	}))
}
