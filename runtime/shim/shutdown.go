// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podworker"
	"github.com/managedworkload/managedworkload/runtime/shutdown"
)

const (
	flagShutdown           = "shutdown-grace-period"
	flagShutdownCritical   = "shutdown-grace-period-critical-pods"
	flagShutdownByPriority = "shutdown-grace-period-by-pod-priority"

	// envSystemBus is where programs find the system bus, and systemBus where it is else.
	envSystemBus = "DBUS_SYSTEM_BUS_ADDRESS"
	systemBus    = "/run/dbus/system_bus_socket"
)

func (o *Options) addShutdownFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.ShutdownGracePeriod, flagShutdown, 0,
		"How long a shutdown of the node waits for the workloads to end, such as 60s; 0: containers are not ended, and end with the machine")
	flags.DurationVar(&o.ShutdownGracePeriodCriticalPods, flagShutdownCritical, 0,
		"The last part of --"+flagShutdown+", for the workloads of the priority classes system-cluster-critical and system-node-critical")
	flags.StringSliceVar(&o.ShutdownGracePeriodByPodPriority, flagShutdownByPriority, nil,
		"Instead of --"+flagShutdown+": PRIORITY=PERIOD for each group of workloads, the lowest priority ends first, such as 0=40s,1000=10s,2000000000=10s")
}

// completeShutdown checks the periods of a shutdown. (kubelet apis/config/validation)
func (o *Options) completeShutdown() error {
	total, critical := o.ShutdownGracePeriod, o.ShutdownGracePeriodCriticalPods
	switch {
	case len(o.ShutdownGracePeriodByPodPriority) > 0 && (total != 0 || critical != 0):
		return fmt.Errorf("--%s and --%s are given at the same time", flagShutdownByPriority, flagShutdown)
	case len(o.ShutdownGracePeriodByPodPriority) > 0:
		return o.completeShutdownGroups()
	case critical > total:
		return fmt.Errorf("--%s (%s) is longer than --%s (%s)", flagShutdownCritical, critical, flagShutdown, total)
	}
	if err := errors.Join(wholeSeconds(flagShutdown, total), wholeSeconds(flagShutdownCritical, critical)); err != nil {
		return err
	}
	o.shutdown = plan.ShutdownPeriods(total, critical)
	return nil
}

func (o *Options) completeShutdownGroups() error {
	for _, text := range o.ShutdownGracePeriodByPodPriority {
		left, right, ok := strings.Cut(text, "=")
		priority, errPriority := strconv.ParseInt(strings.TrimSpace(left), 10, 32)
		period, errPeriod := time.ParseDuration(strings.TrimSpace(right))
		if !ok || errPriority != nil || errPeriod != nil {
			return fmt.Errorf("--%s: %q is not PRIORITY=PERIOD, such as 1000=30s", flagShutdownByPriority, text)
		}
		if err := wholeSeconds(flagShutdownByPriority, period); err != nil {
			return err
		}
		group := plan.ShutdownPeriod{Priority: int32(priority), Seconds: int64(period / time.Second)}
		if slices.ContainsFunc(o.shutdown, func(p plan.ShutdownPeriod) bool { return p.Priority == group.Priority }) {
			return fmt.Errorf("--%s has the priority %d twice", flagShutdownByPriority, priority)
		}
		o.shutdown = append(o.shutdown, group)
	}
	if plan.ShutdownTime(o.shutdown) == 0 {
		return fmt.Errorf("--%s leaves no time at all", flagShutdownByPriority)
	}
	return nil
}

func wholeSeconds(flag string, d time.Duration) error {
	if d < 0 || d > maxShutdown || d%time.Second != 0 {
		return fmt.Errorf("--%s: %s is not a number of whole seconds up to %s", flag, d, maxShutdown)
	}
	return nil
}

// maxShutdown is far above what anyone waits for.
const maxShutdown = 24 * time.Hour

// makeShutdown makes what ends workloads when the node shuts down, nil where nothing does.
func (s *shim) makeShutdown(log logr.Logger) *shutdown.Manager {
	if len(s.options.shutdown) == 0 {
		return nil
	}
	address := cmp.Or(os.Getenv(envSystemBus), "unix:path="+s.options.HostRoot+systemBus)
	log = log.WithName("shutdown")
	return shutdown.New(shutdown.Config{
		Periods:   s.options.shutdown,
		Workloads: activeWorkloads{func() *podworker.Pool { return s.pool }},
		Dial:      shutdown.Dial(address, log),
		HostRoot:  hostfs.Root(s.options.HostRoot),
		Changed:   s.shutdownChanged,
		Event:     s.events.noteNode,
		Log:       log,
	})
}

// shutdownChanged has everyone know that the node shuts down, or does not after all.
func (s *shim) shutdownChanged() {
	if !s.alone {
		s.lease.setShutdown(s.shutdown.Until())
	}
	kick(s.nodeKicked)
	s.pool.WakeAll()
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// activeWorkloads are the workloads of a pool.
type activeWorkloads struct{ pool func() *podworker.Pool }

// Active implements shutdown.Workloads.
func (w activeWorkloads) Active() []*corev1.Pod { return w.pool().Active() }

// Terminate implements shutdown.Workloads.
func (w activeWorkloads) Terminate(uid types.UID, t plan.Termination) bool {
	return w.pool().Terminate(uid, t)
}
