// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/cri"
	"github.com/managedworkload/managedworkload/runtime/executor"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/images"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/probe"
	"github.com/managedworkload/managedworkload/runtime/volume"
)

// openRuntime makes what acts on the node.
func (s *shim) openRuntime(ctx context.Context, log logr.Logger) error {
	o := s.options
	if err := s.openPodDirs(log); err != nil {
		return err
	}
	var err error
	s.runtime, err = cri.Dial(ctx, cri.Config{
		Endpoint: o.RuntimeEndpoint, Instance: o.NodeName, SeccompRoot: o.seccompDir(), PodDir: s.dirs,
		Differences: plan.AllDifferences(), Observe: observeRuntime(s.counted),
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
		Prepare:     s.dns.prepare, PodCgroup: s.cgroups, Freezer: s.cgroups, LogDirectory: s.dirs.LogDirectory,
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
		Changed: func(uid types.UID) { s.pool.Wake(uid) },
		Warn: func(pod *corev1.Pod, message string) {
			s.events.Event(pod, "", corev1.EventTypeWarning, "FailedMount", message)
		},
		Logger: log.WithName("volumes"),
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

// forgetPod drops what is kept in memory of a pod that has ended.
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

// processOf is the first process of a container that runs.
func (s *shim) processOf(ctx context.Context, containerID string) (pid int, err error) {
	pid, _, err = s.runtime.ContainerProcess(ctx, containerID)
	return pid, err
}
