// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/nodestats"
)

const (
	// usageInterval is the time between two posts. The manager forgets what is three times as old.
	usageInterval = time.Minute
	// refusedInterval is the longest time between two posts while the aggregated API takes none: it
	// may not be installed.
	refusedInterval = 10 * time.Minute
)

// usagePoster tells the manager what the node and its workloads use, for kubectl mw top.
type usagePoster struct {
	node  string
	stats interface {
		Summary(ctx context.Context) nodestats.Summary
	}
	post func(ctx context.Context, usage *v1alpha1.NodeUsage) error
	log  logr.Logger
	// failure is what the last post failed with, as it was logged.
	failure string
}

// run posts until the context is done. Where nothing runs, nothing is posted.
func (p *usagePoster) run(ctx context.Context) error {
	p.stats.Summary(ctx) // the next one has rates of CPU
	refused := usageInterval
	pause := nodestats.Fresh + time.Duration(rand.Int64N(int64(usageInterval-nodestats.Fresh))) //nolint:gosec // G404: it spreads load
	for {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		err := p.once(ctx)
		pause, refused = usageInterval, min(2*refused, refusedInterval)
		if err == nil {
			p.failure, refused = "", usageInterval
			continue
		}
		pause = refused
		p.report(ctx, err)
	}
}

// report logs why a post has failed, once.
func (p *usagePoster) report(ctx context.Context, err error) {
	if ctx.Err() == nil && err.Error() != p.failure {
		p.failure = err.Error()
		p.log.Info("Failed to post what this node uses, which kubectl mw top shows; retrying", "reason", p.failure)
	}
}

func (p *usagePoster) once(ctx context.Context) error {
	summary := p.stats.Summary(ctx)
	if len(summary.Pods) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return p.post(ctx, nodeUsage(p.node, &summary))
}

// nodeUsage is a summary as the manager takes it: of a node with more workloads than that, the rest
// is left out.
func nodeUsage(node string, summary *nodestats.Summary) *v1alpha1.NodeUsage {
	usage := &v1alpha1.NodeUsage{
		TypeMeta:   metav1.TypeMeta{Kind: "NodeUsage", APIVersion: v1alpha1.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Timestamp:  metav1.NewTime(summary.Node.Time), Window: metav1.Duration{Duration: summary.Node.Window},
		Usage: resources(&summary.Node),
	}
	for i := range summary.Pods {
		pod := &summary.Pods[i]
		if len(usage.Workloads) == v1alpha1.MaxNodeUsageWorkloads {
			break
		}
		w := v1alpha1.WorkloadUsage{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Usage: withDisk(&pod.Usage, pod.Disk)}
		for j := range pod.Containers[:min(len(pod.Containers), v1alpha1.MaxUsageContainers)] {
			c := &pod.Containers[j]
			w.Containers = append(w.Containers, v1alpha1.ContainerUsage{Name: c.Name, Usage: withDisk(&c.Usage, c.Disk)})
		}
		usage.Workloads = append(usage.Workloads, w)
	}
	return usage
}

func resources(u *nodestats.Usage) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(min(u.NanoCores, 1<<62)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(min(u.WorkingSet, 1<<62)), resource.BinarySI),
	}
}

func withDisk(u *nodestats.Usage, disk uint64) corev1.ResourceList {
	list := resources(u)
	list[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(min(disk, 1<<62)), resource.BinarySI)
	return list
}

// postUsage posts what the node uses.
func (c *objectClient) postUsage(ctx context.Context, usage *v1alpha1.NodeUsage) error {
	if err := c.rest.Post().Resource("nodeusages").Body(usage).MaxRetries(0).Do(ctx).Error(); err != nil {
		return fmt.Errorf("post what the node uses: %w", err)
	}
	return nil
}
