// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	subresources "github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/diskusage"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/nodestats"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/probe"
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
	overseer  *overseer
	lease     *lease
	// tokenFile is where client-go reads the token from; "" if it has none.
	tokenFile string
	garbage   *collector
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
	s := &shim{options: o, started: time.Now(), clock: clock.System(bootID()), counted: prometheus.NewRegistry()}
	for _, step := range []func(context.Context, logr.Logger) error{s.connect, s.openRuntime, s.makePool, s.makeOverseer} {
		if err := step(ctx, log); err != nil {
			if s.runtime != nil {
				err = errors.Join(err, s.runtime.Close())
			}
			return nil, err
		}
	}
	return s, nil
}

// openRuntime makes what acts on the node.
func (s *shim) openRuntime(ctx context.Context, log logr.Logger) error {
	o := s.options
	if err := s.openPodDirs(log); err != nil {
		return err
	}
	var err error
	s.runtime, err = cri.Dial(ctx, cri.Config{
		Endpoint: o.RuntimeEndpoint, Instance: o.NodeName, SeccompRoot: o.seccompDir(), PodDir: s.dirs,
		Differences: plan.AllDifferences(),
	})
	if err != nil {
		return fmt.Errorf("open the container runtime: %w", err)
	}
	s.runtimeName = s.askRuntimeName(ctx)
	s.dns = newDNSWarnings(s.dirs, s.events)
	s.images = images.New(images.Config{Dir: o.imagesDir(), Runtime: s.runtime, Secrets: s.objects, Events: s.events}, log.WithName("images"))
	s.executor = executor.New(executor.Config{
		Runtime: s.runtime, Events: s.events, Kills: killSink{func() *podworker.Pool { return s.pool }},
		Differences: plan.AllDifferences(),
		Clock:       s.clock,
		Images:      s.images,
		Prepare:     s.dns.prepare, PodCgroup: s.cgroups, LogDirectory: s.dirs.LogDirectory,
		RuntimeName: s.runtimeName,
	})
	s.probes = probe.NewManager(ctx, s.runtime, s.events, func(uid types.UID) { s.pool.Wake(uid) }, s.survivorsBefore())
	return nil
}

// openPodDirs makes what keeps the pods' directories, volumes and cgroups on the node.
func (s *shim) openPodDirs(log logr.Logger) error {
	o := s.options
	driver := o.CgroupDriver
	if driver == cgroupDriverAuto {
		driver = ""
	}
	var err error
	s.cgroups, err = podcgroup.New(podcgroup.Config{
		Parent: o.CgroupParent, Driver: driver, HostRoot: hostfs.Root(o.HostRoot),
		Bounds: o.bounds, BoundsFile: o.boundsFile(), PodPids: o.PodMaxPids,
		Process: func(ctx context.Context, id string) (int, string, error) { return s.runtime.ContainerProcess(ctx, id) },
	})
	if err != nil {
		return fmt.Errorf("open the pod cgroups: %w", err)
	}
	s.bounds = &boundKeeper{cgroups: s.cgroups, warn: s.events.warnNode, ready: make(chan struct{})}
	capacity := poddir.NodeCapacity(o.StateDir)
	s.volumes, err = volume.New(volume.Config{
		RootDir: o.podsDir(), HostRoot: hostfs.Root(o.HostRoot), NodeMemory: capacity.Memory().Value(),
		PodMemory: podcgroup.MemoryLimit, Objects: s.objects, Allocatable: capacity,
		Changed: func(uid types.UID) { s.pool.Wake(uid) }, Logger: log.WithName("volumes"),
	})
	if err != nil {
		return fmt.Errorf("open the volumes: %w", err)
	}
	s.dirs, err = poddir.New(poddir.Config{
		LogRoot: o.PodLogDir, NodeName: o.NodeName, NodeIPs: o.NodeIPs,
		ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, ResolvConf: o.ResolvConf, HostRoot: hostfs.Root(o.HostRoot),
		Objects: s.objects, APIServer: poddir.APIServer{Host: o.APIServerHost, Port: o.APIServerPort},
		Capacity: capacity, Logger: log,
	}, s.volumes, s.cgroups)
	if err != nil {
		return fmt.Errorf("open the pod directories: %w", err)
	}
	return nil
}

// forgetPod drops what is kept in memory of a pod whose place on the node is removed.
func (s *shim) forgetPod(uid types.UID) {
	s.executor.Forget(uid)
	s.dns.forget(uid)
	s.objects.ForgetPod(uid)
}

// askRuntimeName is the scheme of container IDs.
func (s *shim) askRuntimeName(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	name, _, _, err := s.runtime.RuntimeInfo(ctx)
	if err != nil {
		return defaultRuntimeName
	}
	return name
}

// makePool makes the workers.
func (s *shim) makePool(_ context.Context, log logr.Logger) error {
	checkpoints, err := podworker.NewCheckpoints(s.options.checkpointDir(), log)
	if err != nil {
		return err
	}
	publisher := newPublisher(s.mgr.GetCache(), s.api, s.api)
	publisher.clock = s.clock
	s.pool = podworker.New(podworker.Config{
		Runtime:      s.runtime,
		Executor:     s.executor,
		Prober:       s.probes,
		PodDir:       podDirAdapter{s.dirs, s.forgetPod},
		Publisher:    publisher,
		Objects:      needs{s.objects, s.runtime},
		Events:       s.events,
		Store:        checkpoints,
		Metrics:      podworker.NewMetrics(s.counted),
		Log:          log.WithName("worker"),
		NetworkReady: func() error { return s.overseer.networkError() },
		Removed:      func(podworker.Identity) { s.overseer.kick(); s.objects.watch.kick() },
		ClusterID:    func() string { return s.overseer.cluster.current() },
		BootID:       bootID(),
		Clock:        s.clock,
		StartedAt:    s.survivorsBefore(),
		HostIPs:      s.options.NodeIPs,
		RuntimeName:  s.runtimeName,

		RecursiveReadOnly: s.dirs.RecursiveReadOnly,
		Exceeds:           exceeds(s.options.bounds),
		Measure:           func() { s.usage.Kick() },
	})
	s.usage = s.makeDiskUsage(log)
	if err := s.makeStats(); err != nil {
		return fmt.Errorf("serve the use of resources: %w", err)
	}
	return s.pool.Restore()
}

// makeOverseer makes what looks at the runtime as a whole, and the reconciler.
func (s *shim) makeOverseer(ctx context.Context, _ logr.Logger) error {
	identity := newClusterIdentity(s.api, s.options.StateDir)
	identity.use = s.runtime.SetClusterID
	synced, err := s.syncedFunc(ctx)
	if err != nil {
		return err
	}
	made := newProgress()
	s.lease = shimLease(s.api, s.clock, s.options)
	keeper := &orphanKeeper{
		runtime: s.runtime, pool: s.pool, cached: s.mgr.GetCache(), synced: synced,
		api: s.api, cluster: identity, events: s.events, lease: s.lease, node: s.options.NodeName,
		progress: made,
	}
	s.overseer = &overseer{
		runtime: s.runtime, pool: s.pool, events: s.events, cluster: identity, orphans: keeper, progress: made,
		policy: &policyProbe{api: s.api}, allowForeign: s.options.AllowForeignPods, firstSeen: s.runtimeSeen, kicked: make(chan struct{}, 1),
	}
	if err := s.mgr.AddHealthzCheck("overseer", s.overseer.progress.check); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	s.garbage = &collector{runtime: s.runtime, executor: s.executor, dirs: s.dirs, pool: s.pool, orphans: keeper}
	countStream(s.counted, s.runtime.Healthy)
	r := &reconciler{reader: s.mgr.GetCache(), node: s.options.NodeName, pool: s.pool, policy: s.overseer.policy, vanished: s.overseer.kick, handed: s.objects.watch.kick}
	return r.setup(s.mgr)
}

// syncedFunc reports whether the list of NodeWorkloads is complete. It makes the
// informer without waiting for it.
func (s *shim) syncedFunc(ctx context.Context) (func() bool, error) {
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

// run runs all parts until the context is done or one of them fails.
// A panic of a part is a failure of it.
func (s *shim) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	parts := []func(context.Context) error{
		s.mgr.Start, s.volumes.Run, s.pool.Run, s.overseer.run, s.overseer.watch, s.overseer.awaitSync, s.garbage.run, s.garbage.runLeftovers,
		s.overseer.cluster.keep, s.bounds.run, s.images.Run, s.usage.Run, s.objects.watch.run, s.objects.uid.keep,
		s.lease.keep, s.interruptAtEnd, s.usagePoster(logr.FromContextOrDiscard(ctx)).run,
	}
	if s.options.RegisterNode {
		n := &node{api: s.api, clock: s.clock, name: s.options.NodeName, ips: s.options.NodeIPs, runtime: s.overseer.version}
		parts = append(parts, n.keep, nodeLease(s.api, s.clock, s.options).keep)
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
