// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

const (
	// boundsInterval is the time between two looks at the limits of the parent cgroup.
	boundsInterval = 10 * time.Second
	// reasonBoundNotInForce is that of an event about the node.
	reasonBoundNotInForce = "NodeBoundNotInForce"
)

// What a bound may be. The kernel has no quota below a millisecond of each 100, and no
// more processes than fit into a process ID (PID_MAX_LIMIT).
var (
	minCPUBound, maxCPUBound       = resource.MustParse("10m"), resource.MustParse("1M")
	minMemoryBound, maxMemoryBound = resource.MustParse("1Mi"), resource.MustParse("1Ei")
)

const maxPidsBound = 1 << 22

// parseBounds reads the flags that bound the workloads of the node.
func (o *Options) parseBounds() (podcgroup.Bounds, error) {
	cpu, cpuErr := parseQuantity("--max-cpu", o.MaxCPU, minCPUBound, maxCPUBound)
	memory, memoryErr := parseQuantity("--max-memory", o.MaxMemory, minMemoryBound, maxMemoryBound)
	err := errors.Join(cpuErr, memoryErr, checkPids("--max-pids", o.MaxPids), checkPids("--pod-max-pids", o.PodMaxPids))
	return podcgroup.Bounds{CPU: cpu, Memory: memory, Pids: o.MaxPids}, err
}

// parseQuantity reads a Kubernetes quantity; an empty one is 0, which is no bound.
func parseQuantity(flag, value string, least, most resource.Quantity) (resource.Quantity, error) {
	if value == "" {
		return resource.Quantity{}, nil
	}
	q, err := resource.ParseQuantity(value)
	switch {
	case err != nil:
		return q, fmt.Errorf("%s %q is not a quantity: %w", flag, value, err)
	case q.IsZero():
	case q.Cmp(least) < 0 || q.Cmp(most) > 0:
		return q, fmt.Errorf("%s %q is not between %s and %s; 0 is no bound", flag, value, least.String(), most.String())
	}
	return q, nil
}

func checkPids(flag string, value int64) error {
	if value < 0 || value > maxPidsBound {
		return fmt.Errorf("%s %d is not between 1 and %d; 0 is no bound", flag, value, maxPidsBound)
	}
	return nil
}

// exceeds says what a pod declares that is above the bounds or the node's huge pages; "" if
// nothing is.
func exceeds(bounds podcgroup.Bounds) func(*corev1.Pod) string {
	return func(pod *corev1.Pod) string {
		var found []string
		path := field.NewPath("spec", "template", "spec")
		for _, err := range append(bounds.Exceeded(pod, path), hugePagesExceeded(pod, path, hugePagesDir)...) {
			found = append(found, err.Error())
		}
		return strings.Join(found, "; ")
	}
}

// boundKeeper keeps the limits of the parent cgroup.
type boundKeeper struct {
	cgroups interface {
		KeepBounds(ctx context.Context) (again bool, err error)
	}
	warn func(reason, message string)
	// ready is closed when the cgroup driver is known.
	ready chan struct{}
}

// run looks at the limits until the context is done, or there is nothing to look after.
func (k *boundKeeper) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.ready:
	}
	log := logr.FromContextOrDiscard(ctx)
	said := ""
	for {
		again, err := k.cgroups.KeepBounds(ctx)
		what := withoutNumbers(err)
		if err != nil && what != said && ctx.Err() == nil {
			log.Error(err, "Failed to keep the bounds of the node; retrying", "in", boundsInterval.String())
			k.warn(reasonBoundNotInForce, err.Error())
		}
		said = what
		if !again || !sleep(ctx, boundsInterval) {
			return nil
		}
	}
}

// withoutNumbers is what stays the same of an error while usage changes; "" for none.
func withoutNumbers(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}
