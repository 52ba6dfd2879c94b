// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/e2e/harness"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// idle measures the shim while it watches n workloads that do nothing.
func (b *bench) idle(ctx context.Context, n int, howLong time.Duration) error {
	fmt.Fprintf(os.Stderr, "Starting %d idle workloads\n", n)
	w, err := harness.Watch(ctx, b.kube, &v1alpha1.NodeWorkloadList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return err
	}
	defer w.Stop()
	running := map[string]bool{}
	err = awaitDuring(ctx, w, func(e watch.Event) bool {
		if nw, ok := e.Object.(*v1alpha1.NodeWorkload); ok && nw.Status.Phase == corev1.PodRunning {
			running[nw.Name] = true
		}
		return len(running) == n
	}, func() error {
		for i := range n {
			if err := b.kube.Create(ctx, workload(fmt.Sprintf("idle-%d", i), true)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Watching them for %s\n", howLong)
	// What the starts left to do is not idling.
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	pid := b.stack.Shim.PID()
	before, err := usage.CPUTime(pid)
	if err != nil {
		return err
	}
	if err := pause(ctx, howLong); err != nil {
		return err
	}
	after, err := usage.CPUTime(pid)
	if err != nil {
		return err
	}
	resident, err := usage.Resident(pid)
	if err != nil {
		return err
	}
	fmt.Printf("%d idle workloads:  shim %.2f %% of a core, %d MB resident\n", n, 100*float64(after-before)/float64(howLong), resident>>20)
	return b.kube.DeleteAllOf(ctx, &v1alpha1.ManagedWorkload{}, client.InNamespace(metav1.NamespaceDefault))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
