// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/runtime/clock"
	"github.com/managedworkload/managedworkload/runtime/plan"
)

// Config is what all workers share.
type Config struct {
	Runtime   Runtime
	Executor  Executor
	Prober    Prober
	PodDir    PodDir
	Publisher Publisher
	// Objects may be nil: then nothing is missing.
	Objects Objects
	Events  Events
	Store   Store
	Metrics *Metrics
	Log     logr.Logger
	// NetworkReady returns an error while the runtime has no pod network.
	NetworkReady func() error
	// Removed is called when nothing is left of a workload. It must not block.
	Removed func(Identity)
	// Measure asks for the disk usage of the workloads for which that is urgent, soon. It must
	// not block.
	Measure func()
	// ClusterID is the cluster that new workloads come from, BootID the node's
	// boot; both are written into checkpoints.
	ClusterID func() string
	BootID    string
	// Clock is the node's; nil is the system's.
	Clock *clock.Clock
	// StartedAt is when the shim started.
	StartedAt time.Time
	// HostIPs are the addresses of the node, the primary one first.
	HostIPs []string
	// RuntimeName is the scheme of container IDs in a status.
	RuntimeName string
	// Exceeds names what a pod declares that is above what the node allows; "" if
	// nothing is. Its answer does not change while the process runs.
	Exceeds func(*corev1.Pod) string
	// MinRestartBackoff is the shortest wait before a restart, whatever a workload says.
	MinRestartBackoff time.Duration
	// Admit says why the node does not take a pod now, nil if it does: one of which nothing
	// ever ran, or a changed template. It is asked about one pod at a time, again every 10 s and
	// on AskAgain, and must not block for long.
	Admit func(*corev1.Pod) *plan.Refusal
	// Signal sends a signal, by its name, to the first process of a container that runs.
	Signal func(ctx context.Context, containerID, signal string) error
	// RecursiveReadOnly reports whether the runtime can make such mounts.
	RecursiveReadOnly func() bool
}

// complete fills in what may be left out.
func (cfg *Config) complete() {
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Removed == nil {
		cfg.Removed = func(Identity) {}
	}
	if cfg.Measure == nil {
		cfg.Measure = func() {}
	}
	if cfg.ClusterID == nil {
		cfg.ClusterID = func() string { return "" }
	}
	if cfg.Exceeds == nil {
		cfg.Exceeds = func(*corev1.Pod) string { return "" }
	}
	if cfg.Admit == nil {
		cfg.Admit = func(*corev1.Pod) *plan.Refusal { return nil }
	}
	if cfg.Signal == nil {
		cfg.Signal = func(context.Context, string, string) error { return errNoSignals }
	}
	if cfg.RecursiveReadOnly == nil {
		cfg.RecursiveReadOnly = func() bool { return false }
	}
	if cfg.NetworkReady == nil {
		cfg.NetworkReady = func() error { return nil }
	}
}

// Usable says whether the container runtime may be used to start containers, and
// why not. While it may not, workloads stay as they are, but those that are being
// deleted are ended in any case.
type Usable struct {
	OK              bool
	Reason, Message string
}
