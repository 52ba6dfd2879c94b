// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Fresh is how long an answer is used again, as long as the kubelet's own figures are.
// (cadvisor/cadvisor_linux.go:defaultHousekeepingInterval)
const Fresh = 10 * time.Second

// Runtime is what is asked of the container runtime.
type Runtime interface {
	// ContainerUsage is what the containers use that run, by pod. The pods have no usage of their own.
	ContainerUsage(ctx context.Context) ([]PodStats, error)
}

// Config of a Source.
type Config struct {
	Runtime Runtime
	// Cgroup is what a pod's cgroup says; false if there is none. Without it a pod uses what its
	// containers do.
	Cgroup func(types.UID) (usage Usage, processes uint64, found bool)
	// Node is what the whole node uses.
	Node func() (Usage, error)
}

// Summary is what was measured at a time.
type Summary struct {
	Node Usage
	Pods []PodStats
	// Err is why a part is missing.
	Err error
}

// Source measures, at most once in Fresh. It is safe for concurrent use.
type Source struct {
	config Config
	// turn is held by who measures.
	turn chan struct{}
	// taken is when last was measured; before are usages of the time before it by what they are of.
	taken time.Time
	last  Summary
	// usages are those of last by what they are of.
	usages map[string]Usage
}

// New returns a Source, which measures nothing yet.
func New(config Config) *Source { return &Source{config: config, turn: make(chan struct{}, 1)} }

// Pods is what the pods of this shim use, ordered by namespace and name. The caller must not
// change it.
func (s *Source) Pods(ctx context.Context) ([]PodStats, error) {
	summary := s.Summary(ctx)
	return summary.Pods, summary.Err
}

// Summary is what node and pods use. The caller must not change it.
func (s *Source) Summary(ctx context.Context) Summary {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Summary{Err: ctx.Err()}
	}
	defer func() { <-s.turn }()
	if s.taken.IsZero() || time.Since(s.taken) >= Fresh {
		measured := s.measure(ctx)
		if ctx.Err() != nil { // what the caller did not wait for is no answer for the next one
			return measured
		}
		s.last, s.taken = measured, time.Now()
	}
	return s.last
}

// measure asks all that is asked.
func (s *Source) measure(ctx context.Context) Summary {
	usages := map[string]Usage{}
	take := func(key string, u *Usage) {
		u.rate(s.usages[key])
		usages[key] = *u
	}
	node, errNode := s.config.Node()
	take("", &node)
	pods, errPods := s.config.Runtime.ContainerUsage(ctx)
	for i := range pods {
		pod := &pods[i]
		for j := range pod.Containers {
			c := &pod.Containers[j]
			take(c.ID, &c.Usage)
			pod.Disk += c.Disk
			pod.Inodes += c.Inodes
		}
		s.whole(pod)
		take("pod/"+string(pod.UID), &pod.Usage)
		slices.SortFunc(pod.Containers, func(a, b ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	if errPods == nil { // the rates of what did not answer are of the time before
		s.usages = usages
	}
	return Summary{Node: node, Pods: pods, Err: errors.Join(errNode, errPods)}
}

// whole fills in what a pod uses as a whole.
func (s *Source) whole(pod *PodStats) {
	if usage, processes, found := s.config.Cgroup(pod.UID); found {
		pod.Usage, pod.Processes = usage, processes
		return
	}
	pod.Usage = sum(pod.Containers)
}
