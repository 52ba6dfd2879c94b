// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/diskusage"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/logs"
	"github.com/managedworkload/managedworkload/runtime/nodestats"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/pressure"
	"github.com/managedworkload/managedworkload/runtime/probe"
	"github.com/managedworkload/managedworkload/runtime/shutdown"
	"github.com/managedworkload/managedworkload/runtime/signal"
	"github.com/managedworkload/managedworkload/runtime/static"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

const (
	// defaultRuntimeName is the scheme of container IDs when the runtime does not
	// answer at start.
	defaultRuntimeName = "containerd"
	// gcPercent trades a little work, where there is hardly any, for memory.
	gcPercent = 40
	// askTimeout is how long the start waits for the runtime's name.
	askTimeout = 2 * time.Second
)

// Run runs the shim until the context is done. What is not there yet (the API
// server, the container runtime) is waited for.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx).WithName("shim").WithValues("node", o.NodeName)
	ctx = logr.NewContext(ctx, log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	lock, err := lockState(o.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	s, err := build(ctx, o, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.runtime.Close()) }()
	stopCounting, err := s.count(metrics.Registry)
	if err != nil {
		return err
	}
	defer stopCounting()
	return s.run(ctx)
}

// shim is the process, wired.
type shim struct {
	options  Options
	started  time.Time
	clock    *clock.Clock
	mgr      manager.Manager
	api      client.Client
	events   *events
	dirs     *poddir.Manager
	volumes  *volume.Manager
	cgroups  *podcgroup.Manager
	bounds   *boundKeeper
	dns      *dnsWarnings
	runtime  *cri.Client
	images   *images.Manager
	executor *executor.Executor
	probes   *probe.Manager
	pool     *podworker.Pool
	usage    *diskusage.Keeper
	stats    *nodestats.Source
	// postUsage tells the manager what the node uses.
	postUsage func(ctx context.Context, usage *subresources.NodeUsage) error
	logs      *logs.Manager
	// collector removes images that are not used.
	collector *images.Collector
	pressure  *pressure.Manager
	overseer  *overseer
	lease     *lease
	static    *static.Source
	// mirrors show static workloads in the API, nil without one.
	mirrors *mirrors
	// alone: there is no API server.
	alone bool
	// node is the Node that this shim keeps, nil where a kubelet does.
	node *node
	// tokenFile is where client-go reads the token from; "" if it has none.
	tokenFile string
	garbage   *collector
	// shutdown ends workloads when the node shuts down; nil where nothing does.
	shutdown *shutdown.Manager
	// nodeKicked has the Node written.
	nodeKicked chan struct{}
	// objects are what containers get beside their template.
	objects *nodeObjects
	// counted is what this shim counts, runtimeName the scheme of container IDs.
	counted     *prometheus.Registry
	runtimeName string
}

// survivorsBefore is the start of the agent as probes and status take it, so that
// every container of an earlier process counts as one.
func (s *shim) survivorsBefore() time.Time { return s.started.Add(plan.AgentRestartGracePeriod) }

// build wires everything; nothing runs yet but what has no start of its own.
func build(ctx context.Context, o Options, log logr.Logger) (*shim, error) {
	s := &shim{options: o, started: time.Now(), clock: clock.System(bootID()), counted: prometheus.NewRegistry(), nodeKicked: make(chan struct{}, 1)}
	for _, step := range []func(context.Context, logr.Logger) error{s.connect, s.openRuntime, s.makePool, s.makeOverseer, s.makeMirrors, s.makePressure, s.handOver} {
		if err := step(ctx, log); err != nil {
			if s.runtime != nil {
				err = errors.Join(err, s.runtime.Close())
			}
			return nil, err
		}
	}
	return s, nil
}

// makePool makes the workers.
func (s *shim) makePool(ctx context.Context, log logr.Logger) error {
	checkpoints, err := podworker.NewCheckpoints(s.options.checkpointDir(), log)
	if err != nil {
		return err
	}
	publisher := newPublisher(s.cached(), s.api, s.api)
	publisher.clock = s.clock
	if !s.alone {
		publisher.started = s.mgr.GetCache().WaitForCacheSync
	}
	s.shutdown = s.makeShutdown(log)
	if err := s.makeStatic(log, publisher, s.unfit(ctx)); err != nil { //nolint:contextcheck // a worker outlives this call
		return err
	}
	s.pool = podworker.New(podworker.Config{
		Runtime:      s.runtime,
		Executor:     s.executor,
		Prober:       s.probes,
		PodDir:       podDirAdapter{s.dirs, s.forgetPod},
		Publisher:    staticPublisher{publisher, s.static},
		Objects:      needs{s.objects, s.runtime},
		Events:       s.events,
		Store:        checkpoints,
		Metrics:      podworker.NewMetrics(s.counted),
		Log:          log.WithName("worker"),
		NetworkReady: func() error { return s.overseer.networkError() },
		Removed:      func(podworker.Identity) { s.overseer.kick(); s.objects.watch.kick() },
		ClusterID:    func() string { return s.overseer.check.cluster.current() },
		BootID:       bootID(),
		Clock:        s.clock,
		StartedAt:    s.survivorsBefore(),
		HostIPs:      s.options.NodeIPs,
		RuntimeName:  s.runtimeName,

		Signal:            signal.NewSender(s.processOf).Send,
		RecursiveReadOnly: s.dirs.RecursiveReadOnly,
		Exceeds:           exceeds(s.options.bounds),
		MinRestartBackoff: s.options.MinRestartBackoff,
		Admit:             s.admission(ctx),
		Measure:           func() { s.usage.Kick() },
	})
	s.usage, s.logs, s.collector = s.makeDiskUsage(log), s.makeLogs(log), s.makeImageCollector(log)
	if err := s.makeStats(); err != nil {
		return fmt.Errorf("serve the use of resources: %w", err)
	}
	return s.pool.Restore()
}

// handOver has workers made for the static workloads that are kept: all that a worker asks is there.
func (s *shim) handOver(context.Context, logr.Logger) error {
	s.static.HandOver()
	return nil
}

// run runs all parts until the context is done or one of them fails.
// A panic of a part is a failure of it.
func (s *shim) run(ctx context.Context) error {
	ctx, cancel := s.shutdown.Outlast(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	parts := []func(context.Context) error{
		s.mgr.Start, s.interruptAtEnd,
		s.volumes.Run, s.pool.Run, s.static.Run,
		s.overseer.run, s.overseer.watch, s.overseer.awaitSync, s.overseer.check.run, s.overseer.check.cluster.keep,
		s.garbage.run, s.garbage.runLeftovers, s.logs.Run, s.images.Run, s.collector.Run, s.usage.Run,
		s.bounds.run, s.pressure.Run, s.objects.watch.run, s.objects.uid.keep, s.events.run,
	}
	if !s.alone {
		parts = append(parts, s.lease.keep, s.mirrors.run, s.mirrors.runStatuses, s.usagePoster(logr.FromContextOrDiscard(ctx)).run)
	}
	if s.shutdown != nil {
		parts = append(parts, s.shutdown.Run)
	}
	if s.node != nil {
		parts = append(parts, s.node.keep, nodeLease(s.api, s.clock, s.options).keep)
		if s.tokenFile != "" {
			t := &tokenKeeper{api: s.api, clock: s.clock, file: s.tokenFile, node: s.options.NodeName}
			parts = append(parts, t.keep)
		}
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, part := range parts {
		group.Go(func() error { return panics.Contain(log, "shim", func() error { return part(ctx) }) })
	}
	err := group.Wait()
	s.probes.Close()
	s.objects.Close()
	s.events.close()
	return err
}

// interruptAtEnd cuts kills short when the process ends: their records stay
// open, and the next process finishes them.
func (s *shim) interruptAtEnd(ctx context.Context) error {
	<-ctx.Done()
	s.executor.Interrupt()
	return nil
}

// count shows what this shim counts among the metrics of the process, as long as
// it runs: another shim may come after it in the same process.
func (s *shim) count(all prometheus.Registerer) (stop func(), err error) {
	if err := all.Register(s.counted); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	return func() { all.Unregister(s.counted) }, nil
}
