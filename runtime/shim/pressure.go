// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/diskusage"
	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/pressure"
)

// makePressure makes what keeps the node from running out of memory, disk and process IDs.
func (s *shim) makePressure(_ context.Context, log logr.Logger) error {
	o := s.options
	evictions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "managedworkload_shim_evictions_total",
		Help: "Workloads that were ended because the node was short of something, by the signal.",
	}, []string{"eviction_signal"})
	if err := s.counted.Register(evictions); err != nil {
		return fmt.Errorf("register the metrics of node pressure: %w", err)
	}
	s.pressure = pressure.New(pressure.Config{
		Thresholds: o.eviction.thresholds, MaxGraceSeconds: int64(o.eviction.MaxPodGracePeriod), Transition: o.eviction.TransitionPeriod,
		Node:      pressure.NewMachine(o.StateDir, o.PodLogDir, hostfs.Root(o.HostRoot), s.runtime),
		Stats:     &podUses{runtime: s.runtime, disk: s.podDiskUse, log: log.WithName("pressure")},
		Workloads: s.pool, Reclaimers: []pressure.Reclaimer{s.garbage, s.collector},
		Changed:   s.pressureChanged,
		Warn:      s.events.warnNode,
		Evicted:   func(signal plan.Signal) { evictions.WithLabelValues(string(signal)).Inc() },
		StateFile: o.pressureFile(), Logger: log.WithName("pressure"),
	})
	s.lease.setPressure(s.pressure.Conditions())
	if o.RegisterNode {
		s.node = &node{
			api: s.api, clock: s.clock, name: o.NodeName, ips: o.NodeIPs, runtime: s.overseer.version,
			pressure: s.pressure.Conditions, shutsDown: func() bool { return !s.shutdown.Until().IsZero() }, kicked: s.nodeKicked,
		}
	}
	return nil
}

// pressureChanged has those that wait for the node asked about again, and says what the node's
// conditions are.
func (s *shim) pressureChanged(conditions []corev1.NodeConditionType) {
	s.pool.WakeAll()
	s.lease.setPressure(conditions)
	kick(s.nodeKicked)
}

// podDiskUse measures emptyDirs and logs of a pod.
func (s *shim) podDiskUse(ctx context.Context, pod *corev1.Pod) (diskusage.Use, error) {
	return s.usage.Use(ctx, diskusage.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
}

const (
	// measureTimeout bounds the measurement of all pods. What was not measured until then does
	// not count.
	measureTimeout = 30 * time.Second
	// measuredAtOnce is how many pods are measured at the same time.
	measuredAtOnce = 4
)

// podUses measures what pods use of the node.
type podUses struct {
	runtime interface {
		PodUses(ctx context.Context) (map[types.UID]*plan.PodUse, error)
	}
	disk func(context.Context, *corev1.Pod) (diskusage.Use, error)
	log  logr.Logger
}

// Uses implements pressure.Stats.
func (u *podUses) Uses(ctx context.Context, pods []*corev1.Pod, disk bool) (map[types.UID]*plan.PodUse, error) {
	uses, err := u.runtime.PodUses(ctx)
	if err != nil || !disk {
		return uses, err
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	turns := make(chan struct{}, measuredAtOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for _, pod := range pods {
		use := uses[pod.UID]
		if use == nil {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			err := panics.Contain(u.log, "the disk usage of pod "+string(pod.UID), func() error { return u.add(ctx, pod, use) })
			if err != nil {
				u.log.Info("Failed to measure all that a workload uses of the disk", "uid", pod.UID, "reason", err.Error())
			}
		})
	}
	return uses, nil
}

// add adds what a pod has in its emptyDirs and logs. No other goroutine has use.
func (u *podUses) add(ctx context.Context, pod *corev1.Pod, use *plan.PodUse) error {
	found, err := u.disk(ctx, pod)
	for name, used := range found.Volumes {
		use.Volumes = append(use.Volumes, plan.VolumeUse{Name: name, DiskUse: used})
	}
	for i := range use.Containers {
		use.Containers[i].Logs = found.Logs[use.Containers[i].Name]
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it takes longer than %v: %w", measureTimeout, err)
	}
	return err
}
